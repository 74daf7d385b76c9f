// Package sim is the root of the simulator; its tests play whole scenarios and compare policies.
//
//	chance     random numbers that are identical on every machine
//	text       nonsense text with an exact number of tokens
//	engine     the model of one inference engine
//	trace      traffic: formats, a generator, arrivals
//	rig        fleets, failures, links
//	drive      the event loop: routers, engines and a trace on a virtual clock
//	figures    the figures of a run
//	calibrate  engine models fitted to recorded traffic
//
// Packages import only those above them in this list. Time is passed in and randomness is seeded, so equal calls give
// equal results.
package sim
