package handoff

import "context"

// Notices waits for what prefillers tell the router when they have pushed the KV cache of a prompt. It is told the id and how many
// notifications are expected of it, before the prefiller is asked. wait returns when they have come, false when they did not in time or
// ctx ended; forget must be called, and may be called more than once.
type Notices func(id string, count int) (wait func(ctx context.Context) bool, forget func())
