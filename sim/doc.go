// Package sim is the tree of the simulator; its tests play whole situations, and compare policies.
//
//	chance     draws that are the same on every machine
//	text       nonsense of an exact number of tokens
//	engine     the model of one inference engine
//	trace      traffic: formats, a generator, arrivals
//	rig        fleets, failures, links
//	drive      the loop: routers, engines and a trace on a virtual clock
//	figures    what came of a run
//	calibrate  engines as recorded traffic shows them
//
// Imports go upwards in this list only. Time is handed in and chance is seeded, so that the same calls give the same answers.
package sim
