#compdef atoll
# Completion of atoll for zsh. For this shell: source <(atoll completion zsh)
# For all: atoll completion zsh > "${fpath[1]}/_atoll"

_atoll() {
    local line value directive=0
    local -a lines described
    lines=("${(@f)$(${~words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    for line in "${lines[@]}"; do
        case $line in
            '') ;;
            :*) directive=${line#:} ;;
            # zsh separates a value and its description with a colon.
            *$'\t'*) value=${line%%$'\t'*}; described+=("${value//:/\\:}:${line#*$'\t'}") ;;
            *) described+=("${line//:/\\:}") ;;
        esac
    done
    [[ ${words[CURRENT]} == -*=* ]] && compset -P '*='
    if (( ${#described} )); then
        _describe -V atoll described
    elif (( directive & 16 )); then
        _files -/
    elif (( ! (directive & 4) )); then
        _files
    fi
}

if [[ ${funcstack[1]} == _atoll ]]; then
    _atoll "$@"
elif (( $+functions[compdef] )); then
    compdef _atoll atoll
else
    print -u2 'atoll: completion needs compinit; put "autoload -U compinit && compinit" into ~/.zshrc before this'
fi
