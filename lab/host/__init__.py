# SPDX-License-Identifier: GPL-2.0-only
"""Python that runs on the host: fetch sources, build kernels, boot them, judge what they print.

A directory with launchers has a link to this one, as Python looks for packages in the
directory of the program that it runs.
"""
