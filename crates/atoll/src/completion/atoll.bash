# Completion of atoll for bash. For this shell: source <(atoll completion bash)
# For all: atoll completion bash > ~/.local/share/bash-completion/completions/atoll

_atoll() {
    local line=${COMP_LINE:0:COMP_POINT} words=() index word last=-1
    # Bash also splits words at colons and equals signs: join parts without a space between them.
    for ((index = 0; index <= COMP_CWORD; index++)); do
        if ((index == 0)) || [[ $line == [[:space:]]* ]]; then
            line=${line#"${line%%[![:space:]]*}"}
            words+=("")
            last=$((last + 1))
        fi
        word=${COMP_WORDS[index]}
        ((index < COMP_CWORD)) || word=$line
        words[last]+=$word
        line=${line#"$word"}
    done

    local program=${words[0]/#\~/$HOME} current=${words[last]} directive=0
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :*) directive=${line#:} ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <("$program" __complete "${words[@]:1}" 2>/dev/null)

    if ((${#COMPREPLY[@]} > 0)); then
        # Bash treats the text before the last colon as a separate word and does not replace it.
        if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
            COMPREPLY=("${COMPREPLY[@]#"${current%"${current##*:}"}"}")
        fi
        if [[ $current == -*=* && $COMP_WORDBREAKS != *=* ]]; then
            COMPREPLY=("${COMPREPLY[@]/#/${current%%=*}=}")
        fi
    elif ((directive & 16)); then
        compopt -o dirnames 2>/dev/null
    elif ((!(directive & 4))); then
        compopt -o default 2>/dev/null
    fi
}

complete -F _atoll atoll
