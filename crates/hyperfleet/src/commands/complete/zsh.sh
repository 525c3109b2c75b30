#compdef hyperfleet
# Completion of hyperfleet for zsh: hyperfleet completion zsh > "${fpath[1]}/_hyperfleet"
_hyperfleet() {
    local -a lines candidates
    local line
    lines=("${(@f)$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    for line in $lines; do
        if [[ "$line" == *$'\t'* ]]; then
            candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        else
            candidates+=("${line//:/\\:}")
        fi
    done
    if (( ${#candidates} )); then
        _describe 'hyperfleet' candidates
    else
        _files
    fi
}
if [[ "$funcstack[1]" == _hyperfleet ]]; then _hyperfleet "$@"; else compdef _hyperfleet hyperfleet; fi
