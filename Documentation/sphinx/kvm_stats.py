# SPDX-License-Identifier: GPL-2.0-only
"""
    kvm-stats
    ~~~~~~~~~

    The ``kvm-stats`` directive: a table of the statistics in a header of them,
    one row per line, like::

        .. kvm-stats:: include/linux/kvm_stats_defs.h

    The path is relative to the top of the source tree. The row of a line in an
    #ifdef names the option. See include/linux/kvm_stats_defs.h for the lines.
"""

import os.path
import re

from docutils.parsers.rst import Directive

LINE = re.compile(
    r'^DEFINE_(?P<scope>VM|VCPU)_STAT\((?P<name>\w+),\s*(?P<type>\w+(?:\([^)]*\))?),'
    r'\s*(?P<unit>\w+),\s*(?P<exponent>-?\d+),\s*'
    r'KVM_(?P<debugfs>\w+)(?:\("(?P<file>[^"]*)"\))?,\s*"(?P<words>[^"]*)"\)'
    r'|^DEFINE_(?:VM|VCPU)_STAT\((?P<unknown>\w+)'
    r'|^#if(?:n?def)?\s+(?P<condition>.+)$|^#(?P<end>endif)', re.M)


def setup(app):
    """Register the directive."""
    app.add_directive('kvm-stats', KvmStats)
    return {'version': '1.0', 'parallel_read_safe': True,
            'parallel_write_safe': True}


def debugfs(line):
    """The name of the file in debugfs, and where only some kernels have it."""
    kind = line['debugfs']
    if kind == 'NO_DEBUGFS':
        return ''
    name = '``%s``' % (line['file'] or line['name'])
    if '_RO' in kind:
        name += ', read-only'
    for only, title in (('BOOK3S', 'Book3S'), ('BOOKE', 'BookE')):
        if only in kind:
            name += ', ' + title
    return name


def unit(line):
    """The unit, with the power of ten that it is multiplied with."""
    if line['unit'] == 'NONE':
        return ''
    name = line['unit'].lower()
    return '10^%s %s' % (line['exponent'], name) if line['exponent'] != '0' else name


def rows(text):
    """A list of cells for each statistic."""
    conditions = []
    for line in LINE.finditer(text):
        if line['condition']:
            conditions.append(line['condition'])
        elif line['end']:
            conditions.pop()
        elif line['unknown']:
            raise ValueError('%s: not a line of a statistic; its words have to '
                             'be one string' % line['unknown'])
        else:
            words = line['words']
            if conditions:
                words += ' (with %s)' % ', '.join(conditions)
            yield ['``%s``' % line['name'],
                   {'VM': 'VM', 'VCPU': 'vCPU'}[line['scope']],
                   line['type'].lower().replace('_', ' '), unit(line),
                   debugfs(line), words]


class KvmStats(Directive):
    """The directive; its argument is the header."""

    required_arguments = 1
    has_content = False

    def run(self):
        env = self.state.document.settings.env
        path = os.path.join(env.config.kerneldoc_srctree, self.arguments[0])
        env.note_dependency(os.path.abspath(path))
        table = ['.. list-table::', '   :header-rows: 1', '']
        with open(path) as header:
            text = header.read()
        try:
            lines = [['Name', 'Scope', 'Type', 'Unit', 'debugfs', 'Counts'],
                     *rows(text)]
        except ValueError as error:
            raise self.error('%s: %s' % (path, error))
        for cells in lines:
            for number, cell in enumerate(cells):
                table.append('   %s %s' % ('  -' if number else '* -', cell))
        self.state_machine.insert_input(table + [''], path)
        return []
