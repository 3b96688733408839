# Completion of atoll for fish. For this shell: atoll completion fish | source
# For all: atoll completion fish > ~/.config/fish/completions/atoll.fish

function __atoll_complete
    set -l current (commandline -ct)
    set -l words (commandline -opc)
    set -l program $words[1]
    set -e words[1]
    set -l prefix ''
    if string match -qr -- '^-[^=]*=' "$current"
        set prefix (string replace -r -- '=.*$' '=' "$current")
    end
    set -l directive 0
    set -l found 0
    for line in ($program __complete $words "$current" 2>/dev/null)
        if string match -q -- ':*' $line
            set directive (string sub -s 2 -- $line)
        else
            printf '%s%s\n' $prefix $line
            set found 1
        end
    end
    if test $found -eq 0
        set -l rest (string replace -- "$prefix" '' "$current")
        switch $directive
            case 0
                for path in (__fish_complete_path "$rest")
                    printf '%s%s\n' $prefix $path
                end
            case 16
                for path in (__fish_complete_directories "$rest")
                    printf '%s%s\n' $prefix $path
                end
        end
    end
end

complete -c atoll -e
complete -c atoll -f -a '(__atoll_complete)'
