// Package peers has the routers of one fleet tell each other what they place and what becomes of it, so that any number
// of them decides as one would. It owns the messages and frames, their order and repair, the time that all go by, who
// is there, and the transports.
//
// It listens to live and calls Observe; nothing of it stands in the path of a request. What is told names nothing that
// clients sent: names and prompts are hashes, and frames are sealed by a key that the fleet's secret gives. It promises
// that what one router tells is taken in by another one in order, or not at all and then as a whole again, and that
// everything it keeps is bounded.
package peers
