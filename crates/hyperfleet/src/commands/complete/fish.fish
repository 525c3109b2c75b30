# Completion of hyperfleet for fish: hyperfleet completion fish > ~/.config/fish/completions/hyperfleet.fish
function __hyperfleet_complete
    set -l words (commandline -opc)
    $words[1] __complete -- $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c hyperfleet -n '__hyperfleet_complete | string length -q' -f
complete -c hyperfleet -a '(__hyperfleet_complete)'
