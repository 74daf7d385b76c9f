package sim

import (
	"container/heap"
	"slices"
	"testing"
	"time"
)

// turnAt is a turn of a conversation that is due.
type turnAt struct {
	at         time.Time
	conv, turn int
}

type turnQueue []turnAt

func (q turnQueue) Len() int           { return len(q) }
func (q turnQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q turnQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *turnQueue) Push(x any)        { *q = append(*q, x.(turnAt)) }
func (q *turnQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// playFleet plays the default workload on four default engines, closed loop, in virtual time, and gives the times to
// first token and the share of prompt tokens found in a cache.
func playFleet(t *testing.T, seed uint64, pick func(conv, request int) int) (ttft []time.Duration, hit float64) {
	t.Helper()
	w := DefaultWorkload()
	convs := w.Conversations(seed)
	var engines [4]*Engine
	for i := range engines {
		engines[i] = newTestEngine(t, nil)
	}
	var due turnQueue
	for i, c := range convs {
		heap.Push(&due, turnAt{epoch.Add(c.Start), i, 0})
	}
	context := make([]int, len(convs)) // tokens of the conversation so far
	sent := map[uint64]turnAt{}
	var cached, prompts float64
	request := 0
	for {
		var next *Engine
		var at time.Time
		for _, e := range engines {
			if end, ok := e.Next(); ok && (next == nil || end.Before(at)) {
				next, at = e, end
			}
		}
		if len(due) > 0 && (next == nil || !at.Before(due[0].at)) {
			d := heap.Pop(&due).(turnAt)
			turn := convs[d.conv].Turns[d.turn]
			prompt := w.SystemTokens + context[d.conv] + turn.UserTokens
			context[d.conv] += turn.UserTokens + turn.AnswerTokens
			chain := append(chainOf(99, w.SystemTokens/16), chainOf(uint64(d.conv), (prompt+turn.AnswerTokens)/16-w.SystemTokens/16)...)
			request++
			job := Job{ID: uint64(request), Chain: chain, PromptTokens: prompt, OutputTokens: turn.AnswerTokens}
			sent[job.ID] = d
			prompts += float64(prompt)
			if err := engines[pick(d.conv, request)].Submit(d.at, job); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if next == nil {
			break
		}
		for _, em := range next.Advance(at) {
			d := sent[em.ID]
			switch em.Kind {
			case Prefilled:
				ttft = append(ttft, em.At.Sub(d.at))
				cached += float64(em.CachedTokens)
			case Done:
				if turns := convs[d.conv].Turns; d.turn+1 < len(turns) {
					heap.Push(&due, turnAt{em.At.Add(turns[d.turn+1].Think), d.conv, d.turn + 1})
				}
			}
		}
	}
	slices.Sort(ttft)
	return ttft, cached / prompts
}

func mean(d []time.Duration) time.Duration {
	var sum time.Duration
	for _, x := range d {
		sum += x
	}
	return sum / time.Duration(len(d))
}

// The reason why this project exists, on its own model: a fleet that keeps conversations where they are answers
// several times sooner than one that takes turns, and computes half as much.
func TestStayingBeatsTakingTurns(t *testing.T) {
	for seed := range uint64(3) {
		turns, turnsHit := playFleet(t, seed, func(_, request int) int { return request % 4 })
		stay, stayHit := playFleet(t, seed, func(conv, _ int) int { return conv % 4 })
		t.Logf("seed %d: %d requests; in turns: hit %.1f %%, mean %v, p50 %v, p99 %v; staying: hit %.1f %%, mean %v, p50 %v, p99 %v", seed, len(stay),
			100*turnsHit, mean(turns).Round(time.Millisecond), turns[len(turns)/2].Round(time.Millisecond), turns[len(turns)*99/100].Round(time.Millisecond),
			100*stayHit, mean(stay).Round(time.Millisecond), stay[len(stay)/2].Round(time.Millisecond), stay[len(stay)*99/100].Round(time.Millisecond))
		if len(turns) != len(stay) {
			t.Fatalf("%d and %d requests", len(turns), len(stay))
		}
		if stayHit < turnsHit+0.08 || 2*mean(stay) > mean(turns) {
			t.Errorf("seed %d: staying: hit %.3f, mean %v; in turns: hit %.3f, mean %v", seed, stayHit, mean(stay), turnsHit, mean(turns))
		}
	}
}
