// Package hook runs what an operator wants to happen at points of a crawler's life: a command, or a webhook.
//
// It does not know what the points mean, nor who asks: it is handed a [Hook] and an [Event]. Commands run as
// [crawlkeeper/worker/program] runs them, in a tree of their own.
//
// # A webhook
//
// The event is the body of a POST. Where there is a key, the header X-Crawlkeeper-Signature is "sha256=" and, in hex, the
// HMAC-SHA256 of the value of X-Crawlkeeper-Timestamp (seconds since 1970, of this attempt), a dot, and the body. Who
// receives it compares both, and refuses what is older than a few minutes. Any 2xx is success. No connection, 429 and 5xx
// are tried again, after pauses that double from a second to half a minute, shortened by up to half at random;
// Retry-After is heeded up to that half minute. Redirects are followed (307 and 308, three of them) on the same host only.
//
// # What always holds
//
//   - [Runner.Run] returns: after the hook's timeout and retries, or the end of the context, and a few seconds more at most.
//   - What a hook prints or answers is bounded: the last of it is kept.
//   - URL and key are in no error.
//   - [Queue] holds a bounded number of jobs and runs a few at once; jobs of one key run in the order in which they came, one
//     at a time. With nothing to do it has no goroutine but that of [Queue.Run].
package hook
