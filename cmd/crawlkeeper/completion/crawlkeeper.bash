# Completion of crawlkeeper for bash: source <(crawlkeeper completion bash)
_crawlkeeper() {
	local line=${COMP_LINE:0:COMP_POINT} current="" prefix="" found
	local -a words
	read -ra words <<<"$line"
	if [[ $line == *[[:space:]] ]]; then
		words+=("")
	fi
	current=${words[-1]}
	# Bash replaces only what stands behind the last : or = of a word.
	if [[ $current == *[:=]* ]]; then
		prefix=${current%"${current##*[:=]}"}
	fi
	COMPREPLY=()
	while IFS=$'\t' read -r found _; do
		COMPREPLY+=("${found#"$prefix"}")
	done < <("${words[0]}" complete -- "${words[@]:1}" 2>/dev/null)
}
complete -o bashdefault -o default -F _crawlkeeper crawlkeeper
