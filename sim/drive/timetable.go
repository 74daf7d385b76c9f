package drive

// happening is a scheduled event.
type happening struct {
	at   int64  // ns from the start
	seq  uint64 // order among events of one time
	kind happeningKind
	of   int32 // index of the engine, turn, outage or aside
}

type happeningKind uint8

const (
	engineStep happeningKind = iota
	turnDue
	asideDue // see Stage.At
	endpointJoins
	endpointFails
	failureNoticed
	endpointReturns
	newsDue
	tickDue
	linksDue    // a transfer ends
	handArrives // its KV cache has arrived
	leaseEnds   // of KV cache that was not fetched
	clientLeaves
)

// timetable is a binary heap of scheduled events, ordered by time, then by order of scheduling.
type timetable struct {
	due     []happening
	entered uint64
}

func (a *timetable) push(at int64, kind happeningKind, of int) {
	a.entered++
	a.due = append(a.due, happening{at: at, seq: a.entered, kind: kind, of: int32(of)})
	for i := len(a.due) - 1; i > 0; {
		up := (i - 1) / 2
		if !a.due[i].before(&a.due[up]) {
			return
		}
		a.due[i], a.due[up] = a.due[up], a.due[i]
		i = up
	}
}

func (a *timetable) pop() (happening, bool) {
	if len(a.due) == 0 {
		return happening{}, false
	}
	first, last := a.due[0], len(a.due)-1
	a.due[0] = a.due[last]
	a.due = a.due[:last]
	for i := 0; ; {
		least := i
		for down := 2*i + 1; down <= 2*i+2 && down < last; down++ {
			if a.due[down].before(&a.due[least]) {
				least = down
			}
		}
		if least == i {
			return first, true
		}
		a.due[i], a.due[least] = a.due[least], a.due[i]
		i = least
	}
}

func (h *happening) before(o *happening) bool {
	if h.at != o.at {
		return h.at < o.at
	}
	return h.seq < o.seq
}
