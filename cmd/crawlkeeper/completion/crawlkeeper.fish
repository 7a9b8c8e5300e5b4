# Completion of crawlkeeper for fish: crawlkeeper completion fish | source
function __crawlkeeper_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l current (commandline --cut-at-cursor --current-token)
    set -l found ($words[1] complete -- $words[2..-1] "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete --command crawlkeeper --no-files --arguments '(__crawlkeeper_complete)'
