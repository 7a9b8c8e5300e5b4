// Package demosite is a small news site on loopback for the demo and for tests: feeds and pages that gain articles as time
// passes, a feed that is flaky, and one that hangs.
//
// What always holds: nothing is stored. Which articles there are, what they say and when the flaky feed fails is a function of
// seed and time alone, so that two sites of one seed agree, and a site that was started again has the same past.
//
//	/                          the feeds and sections, as a page
//	/feeds/CODE.xml            the newest 20 articles; ?before=TIME (RFC 3339) the 20 before that moment
//	/sections/CODE             the same as a page with links; ?before=TIME too
//	/articles/CODE/NUMBER      one article
//	/slow?seconds=N            a page that takes its time, to be interrupted
package demosite
