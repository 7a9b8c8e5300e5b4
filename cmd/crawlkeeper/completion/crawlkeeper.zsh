#compdef crawlkeeper
# Completion of crawlkeeper for zsh: source <(crawlkeeper completion zsh)
_crawlkeeper() {
	local line
	local -a found
	while IFS= read -r line; do
		line=${line//:/\\:}
		found+=("${line/$'\t'/:}")
	done < <("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
	if (( ${#found} )); then
		_describe crawlkeeper found
	else
		_files
	fi
}
if (( $+functions[compdef] )); then
	compdef _crawlkeeper crawlkeeper
fi
