# Completion of hyperfleet for bash: source <(hyperfleet completion bash)
_hyperfleet() {
    local line="${COMP_LINE:0:COMP_POINT}" words candidate
    read -ra words <<<"$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    COMPREPLY=()
    while IFS=$'\t' read -r candidate _; do
        COMPREPLY+=("$candidate")
    done < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
    # bash splits words at = and :, and wants only what is behind the last of them.
    local word="${words[${#words[@]} - 1]}" current="${COMP_WORDS[COMP_CWORD]}"
    if [[ "$word" != "$current" && "$word" == *"$current" ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${word%"$current"}"}")
    fi
    [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *= ]] && compopt -o nospace
}
complete -o default -F _hyperfleet hyperfleet
