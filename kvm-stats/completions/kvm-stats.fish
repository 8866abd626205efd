# SPDX-License-Identifier: GPL-2.0-only
# fish completion for kvm-stats: fish quotes the words from "kvm-stats complete"

function __kvm_stats_complete
    set -l typed (commandline -ct | string unescape)
    set -l words (commandline -opc)
    for line in (kvm-stats complete $words[2..] "$typed" 2>/dev/null)
        if test "$line" = \t
            set -l option (string match -r -- '^--[^=]*=' "$typed")
            string replace -r -- '^' "$option" (__fish_complete_path (string replace -- "$option" '' "$typed"))
        else
            echo -- $line
        end
    end
end
complete -c kvm-stats -f -a '(__kvm_stats_complete)'
