package fleet

// MissCause is why a prompt was not found in the cache of the endpoint that got it.
type MissCause string

// The causes. MissNone says nothing of a prompt whose content was not read, but for its conversation's home.
const (
	MissNone      MissCause = ""
	MissNew       MissCause = "never_there"    // no prompt before it began so
	MissEvicted   MissCause = "evicted"        // it was there, and made room for others
	MissRestarted MissCause = "restarted"      // the engine has lost its cache since
	MissPrefix    MissCause = "another_prefix" // it differs from the conversation's last prompt
	MissTenant    MissCause = "another_tenant" // its beginning was sent by another tenant, whose cache is kept apart
	MissAdapter   MissCause = "another_model"  // it was computed with another model or adapter
	MissElsewhere MissCause = "elsewhere"      // the conversation, or its beginning, is at another endpoint
	MissUnclear   MissCause = "unclear"        // the last prompt was at another router, or before a restart of this one
)

// Miss is what of a prompt was not found in a cache, and why. It is as of the decision, and corrected by the cached
// tokens that the engine reported. It has no text; what is unknown is 0.
type Miss struct {
	Cause  MissCause
	Tokens int // that could have been found, and were not
	Work   int // with MissEvicted: tokens of prompts that the endpoint has computed since; 0 unknown
	// with MissPrefix: bytes of the prompt that both have, and those by the end of which they differ, as the router
	// writes prompts down
	From, To int
	Messages [2]int // the messages, from 1, in which these lie; 0 unknown
	Unseen   bool   // the router had expected to find it
}
