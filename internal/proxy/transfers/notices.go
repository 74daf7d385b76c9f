package transfers

import "context"

// Notices waits for prefillers' notifications that the KV cache of a prompt has been pushed. It is called with the id
// and the expected number of notifications before the prefiller is asked. wait returns true when all have come, false
// when time is up or ctx has ended. forget must be called, and may be called more than once.
type Notices func(id string, count int) (wait func(ctx context.Context) bool, forget func())
