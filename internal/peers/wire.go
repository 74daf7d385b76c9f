package peers

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/session"
)

// What routers send each other. All integers are big-endian; lengths and counts are variable (uvarint).
//
//	frame     version 1, fleet 8, incarnation 8, counter 8, then sealed:
//	          number 8 (of the origin's frames to all; 0 in one to a single router), fleet time in us 8,
//	          incarnation of the router that it is for 8 (0 for all), messages
//	message   kind 1, ms before the frame's time (uvarint, in tenths), fields
//
// The version is in clear, so that a router can say why it does not understand another.
//
// A recorded frame counts nowhere a second time: a router hears another one only after that has sealed an answer to a
// challenge that was made for it, and from then on each of its frames has a higher counter than the one before. One for
// a single router counts there alone.

// Version is that of the frames.
const Version = 4

const (
	headBytes  = 25
	plainBytes = 24 // in front of the messages
	mostFrame  = 64 << 10
	mostChain  = 1 << 16 // names in one message
)

// kind is what a message is. Those of news are route.NewsKind.
type kind uint8

const (
	kindAlive kind = 32 + iota // the origin is there: digests of what all must agree on
	kindWant                   // of one router to another: tell me all that you have under way
	// the answer begins: all that follows in frames to this router is under way. up to the number of the frame to all
	// before it
	kindState
	kindDone      // the answer ends
	kindAsk       // the names of a prompt that ends so are not known: tell them
	kindNames     // they are these
	kindLearn     // of one router to another: offer me what you have learnt
	kindOffer     // the answer: nothing, soon, or a snapshot of so many bytes
	kindPull      // send me a part of it
	kindPart      // a part
	kindChallenge // of one router to another: prove that you live
	kindProof     // the answer: what the challenge said
	kindUse       // what a tenant uses of its limits at the origin, or at a router that is gone
	kindLeaves    // the origin ends, and counts no longer
)

var errBroken = errors.New("peers: a message is broken")

// message is one decoded message. Placed and Chain are valid until the next one is decoded.
type message struct {
	kind      kind
	before    time.Duration // its frame
	news      route.News
	alive     alive
	upTo      uint64    // of kindState
	name      uint64    // of kindAsk
	chain     []uint64  // of kindNames
	challenge challenge // of kindChallenge and kindProof
	use       fleet.TenantUse
	user      uint64 // of kindUse: the router that is gone; 0 for the origin
	lesson    lesson // of kindOffer, kindPull and kindPart; its data is valid until the next frame

	placed route.Placed
	base   uint64 // of a placed prompt: the name of its first depth blocks, which is to be known; 0 for none
	depth  int
	rest   []uint64
}

// challenge is a number that nobody guesses.
type challenge [16]byte

func appendChallenge(b []byte, k kind, c challenge) []byte {
	return append(appendHead(b, k, 0), c[:]...)
}

// alive is what a router says of itself.
type alive struct {
	number            uint64 // of its latest frame to all
	policy, endpoints uint64 // digests
	leases            uint64
	routers           uint64 // that there should be, itself among them
}

// flags of a placed request
const (
	flagStream = 1 << iota
	flagWaits
	flagFirstTurn
	flagAgain
	flagRepeats
	flagMinted
	flagNamed
	flagFirst
	flagByUser
	flagOpens
	flagTrailRepeats
	flagHasTrail
	flagHasUser
	flagHasID
	flagHasStanding
	flagHasText
	flagTrailOpening
	flagTrailOpened
	flagUncounted
	flagHasParent
)

// modelBit is the first of the highest bits of the flags, which have route.Placed.Model. Releases that do not know it
// send 0 and read none of them.
const modelBit = 20

func putKey(b []byte, k session.Key) []byte {
	hi, lo := k.Halves()
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, hi), lo)
}

func putInt(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(max(0, n))) }

func putFloat(b []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(b, math.Float64bits(f))
}

// appendNews adds a piece of news that happened so long before the frame. base and rest are the prompt of a placed
// request as others know it.
func appendNews(b []byte, before time.Duration, n *route.News, base uint64, depth int, rest []uint64) []byte {
	b = appendHead(b, kind(n.Kind), before)
	b = binary.AppendUvarint(b, uint64(n.Lease))
	switch n.Kind {
	case route.NewsPlaced:
		b = appendPlaced(b, n.Placed, base, depth, rest)
	case route.NewsResponse:
		b = putKey(b, n.Response)
	case route.NewsEnded:
		known := byte(0)
		if n.Usage.CachedKnown {
			known = 1
		}
		if n.Response != (session.Key{}) {
			known |= 2
		}
		b = append(b, byte(n.Outcome), known)
		b = putInt(putInt(putInt(b, n.Usage.PromptTokens), n.Usage.CachedTokens), n.Usage.OutputTokens)
		if known&2 != 0 {
			b = putKey(b, n.Response)
		}
	case route.NewsClosed:
		b = putKey(b, n.Conversation)
	case route.NewsHeld:
		b = appendHeld(b, &n.Held)
	case route.NewsSent, route.NewsFirstByte, route.NewsTransferring:
	}
	return b
}

func appendHeld(b []byte, h *route.HeldNews) []byte {
	b = putInt(putInt(binary.BigEndian.AppendUint64(b, h.Pool), h.Turns), int(h.Tokens))
	b = binary.BigEndian.AppendUint64(append(b, byte(h.Priority)), h.Tenant)
	return putInt(b, int(h.Left/time.Millisecond))
}

func appendHead(b []byte, k kind, before time.Duration) []byte {
	b = append(b, byte(k))
	return binary.AppendUvarint(b, uint64(max(0, before/(100*time.Microsecond))))
}

func appendPlaced(b []byte, p *route.Placed, base uint64, depth int, rest []uint64) []byte {
	c, flags := &p.Conversation, uint32(0)
	for i, set := range [...]bool{
		p.Stream, p.Queued, p.FirstTurn, p.Again, p.Repeats, c.Minted, c.Named, c.First, c.ByUser, c.Opens,
		c.Trail.Repeats,
		c.Trail.Main != 0, c.User != (session.Key{}), c.ID != "", p.QueueClass != (fleet.QueueClass{}) ||
			p.Tenant != 0, c.Trail.StrictText != 0,
		c.Trail.Opening, c.Trail.Opened, p.Uncounted, c.Parent != (session.Key{}),
	} {
		if set {
			flags |= 1 << i
		}
	}
	flags |= uint32(min(p.Model, route.MostModelMark)) << modelBit
	b = binary.BigEndian.AppendUint32(b, flags)
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, p.Endpoint), p.Pool)
	b = append(b, byte(p.Class), byte(p.Leg))
	for _, n := range [...]int{
		p.PromptTokens, p.CachedTokens, p.FetchTokens, p.OutputTokens, p.MaxTokens, p.PromptBytes, p.TextBytes,
		int(p.ReadyMs), int(p.Seq),
	} {
		b = putInt(b, n)
	}
	if flags&flagWaits != 0 {
		b = putFloat(b, p.Key)
	}
	if flags&flagHasStanding != 0 {
		b = binary.BigEndian.AppendUint64(b, p.Tenant)
		b = append(putFloat(b, p.QueueClass.Share), byte(p.QueueClass.Priority))
		b = putInt(putInt(b, p.QueueClass.MaxWaiting), p.QueueClass.MaxRunning)
	}
	b = putKey(b, c.Key)
	if flags&flagHasParent != 0 {
		b = putKey(b, c.Parent)
	}
	if flags&flagHasID != 0 {
		id := c.ID[:min(len(c.ID), 255)]
		b = append(append(b, byte(len(id))), id...)
	}
	if flags&flagHasUser != 0 {
		b = putKey(b, c.User)
	}
	if flags&flagHasTrail != 0 {
		t := &c.Trail
		for _, n := range [...]uint64{t.Main, t.Turn, t.Chat, t.Answer, t.StrictAnswer} {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		if flags&flagHasText != 0 {
			for _, n := range [...]uint64{t.Text, t.StrictText, t.Tail} {
				b = binary.BigEndian.AppendUint64(b, n)
			}
			b = append(b, t.Off)
		}
	}
	b = putInt(b, depth)
	if depth > 0 {
		b = binary.BigEndian.AppendUint64(b, base)
	}
	return appendNames(b, rest)
}

func appendNames(b []byte, names []uint64) []byte {
	b = putInt(b, len(names))
	for _, n := range names {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func appendAlive(b []byte, a *alive) []byte {
	b = appendHead(b, kindAlive, 0)
	for _, n := range [...]uint64{a.number, a.policy, a.endpoints, a.leases, a.routers} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func appendUse(b []byte, user uint64, u *fleet.TenantUse) []byte {
	b = appendHead(b, kindUse, 0)
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, u.Tenant), user)
	return putInt(putFloat(putFloat(b, u.Requests), u.Tokens), u.Open)
}

func appendOffer(b []byte, s offerState, id uint64, size int) []byte {
	b = append(appendHead(b, kindOffer, 0), byte(s))
	return putInt(binary.BigEndian.AppendUint64(b, id), size)
}

func appendPull(b []byte, id uint64, part int) []byte {
	return putInt(binary.BigEndian.AppendUint64(appendHead(b, kindPull, 0), id), part)
}

func appendPart(b []byte, id uint64, part int, data []byte) []byte {
	b = putInt(binary.BigEndian.AppendUint64(appendHead(b, kindPart, 0), id), part)
	return append(putInt(b, len(data)), data...)
}

// reader takes a frame's messages apart. After a fault it gives zeros, and says so.
type reader struct {
	b    []byte
	bad  bool
	room []uint64
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	n, used := binary.Uvarint(r.b)
	if used <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[used:]
	return n
}

// mostInt bounds what is read as a count of tokens or bytes: no sum of them overflows.
const mostInt = 1 << 40

// mostLeft is the most ms that a turn is held.
const mostLeft = 1e9

func (r *reader) int() int {
	n := r.uvarint()
	if n > mostInt {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *reader) float() float64 {
	f := math.Float64frombits(r.uint64())
	if math.IsNaN(f) || math.IsInf(f, 0) {
		r.bad = true
		return 0
	}
	return f
}

func (r *reader) key() session.Key {
	hi := r.uint64()
	return session.KeyFrom(hi, r.uint64())
}

func (r *reader) names() []uint64 {
	n := r.int()
	if n > mostChain || 8*n > len(r.b) {
		r.bad = true
		return nil
	}
	r.room = r.room[:0]
	for range n {
		r.room = append(r.room, r.uint64())
	}
	return r.room
}

// next decodes a message; ok is false at the end, err says that it is broken.
func (r *reader) next(m *message) (ok bool, err error) {
	if len(r.b) == 0 {
		return false, nil
	}
	m.kind = kind(r.byte())
	m.before = time.Duration(min(r.uvarint(), 1e9)) * 100 * time.Microsecond
	switch m.kind {
	case kindAlive:
		m.alive = alive{r.uint64(), r.uint64(), r.uint64(), r.uint64(), r.uint64()}
	case kindWant, kindDone, kindLearn, kindLeaves:
	case kindUse:
		m.use.Tenant, m.user = r.uint64(), r.uint64()
		// more would take hours to be filled up
		m.use.Requests, m.use.Tokens, m.use.Open = min(r.float(), mostInt), min(r.float(), mostInt), r.int()
	case kindState:
		m.upTo = r.uint64()
	case kindAsk:
		m.name = r.uint64()
	case kindNames:
		m.chain = r.names()
	case kindOffer:
		m.lesson = lesson{kind: m.kind, state: offerState(r.byte()), id: r.uint64(), size: r.int()}
		r.bad = r.bad || m.lesson.state > offersNow
	case kindChallenge, kindProof:
		copy(m.challenge[:], r.take(len(m.challenge)))
	case kindPull:
		m.lesson = lesson{kind: m.kind, id: r.uint64(), part: r.int()}
	case kindPart:
		m.lesson = lesson{kind: m.kind, id: r.uint64(), part: r.int()}
		m.lesson.data = r.take(r.int())
	default:
		r.news(m)
	}
	if r.bad {
		return false, errBroken
	}
	return true, nil
}

func (r *reader) news(m *message) {
	n := &m.news
	*n = route.News{Kind: route.NewsKind(m.kind), Lease: fleet.Lease(r.uvarint())}
	switch n.Kind {
	case route.NewsPlaced:
		r.placed(m)
		n.Placed = &m.placed
	case route.NewsResponse:
		n.Response = r.key()
	case route.NewsEnded:
		n.Outcome = fleet.Outcome(r.byte())
		known := r.byte()
		n.Usage = fleet.Usage{
			PromptTokens: r.int(), CachedTokens: r.int(), OutputTokens: r.int(), CachedKnown: known&1 != 0,
		}
		if known&2 != 0 {
			n.Response = r.key()
		}
		if n.Outcome > fleet.TransferFailed {
			r.bad = true
		}
	case route.NewsClosed:
		n.Conversation = r.key()
	case route.NewsHeld:
		n.Held = route.HeldNews{
			Pool: r.uint64(), Turns: r.int(), Tokens: int64(r.int()), Priority: fleet.Priority(r.byte()),
			Tenant: r.uint64(), Left: time.Duration(min(r.int(), mostLeft)) * time.Millisecond,
		}
	case route.NewsSent, route.NewsFirstByte, route.NewsTransferring:
	default:
		r.bad = true
	}
}

func (r *reader) placed(m *message) {
	p := &m.placed
	*p = route.Placed{}
	b := r.take(4)
	if b == nil {
		return
	}
	flags := binary.BigEndian.Uint32(b)
	has := func(f uint32) bool { return flags&f != 0 }
	p.Stream, p.Queued, p.FirstTurn, p.Again, p.Repeats = has(flagStream), has(flagWaits), has(flagFirstTurn),
		has(flagAgain), has(flagRepeats)
	p.Uncounted, p.Model = has(flagUncounted), uint16(flags>>modelBit)
	p.Endpoint, p.Pool = r.uint64(), r.uint64()
	p.Class, p.Leg = fleet.Class(r.byte()), fleet.Leg(r.byte())
	if p.Class > fleet.Auxiliary || p.Leg > fleet.LegDecode {
		r.bad = true
	}
	p.PromptTokens, p.CachedTokens, p.FetchTokens = r.int(), r.int(), r.int()
	p.OutputTokens, p.MaxTokens = r.int(), r.int()
	p.PromptBytes, p.TextBytes, p.ReadyMs, p.Seq = r.int(), r.int(), float64(r.int()), uint64(r.int())
	if p.CachedTokens > p.PromptTokens {
		r.bad = true
	}
	if has(flagWaits) {
		p.Key = r.float()
	}
	if has(flagHasStanding) {
		p.Tenant = r.uint64()
		p.QueueClass = fleet.QueueClass{Share: r.float(), Priority: fleet.Priority(r.byte())}
		p.QueueClass.MaxWaiting, p.QueueClass.MaxRunning = r.int(), r.int()
	}
	c := &p.Conversation
	*c = learnt.Announcement{
		Key: r.key(), Minted: has(flagMinted), Named: has(flagNamed), First: has(flagFirst), ByUser: has(flagByUser),
		Opens: has(flagOpens),
	}
	if has(flagHasParent) {
		c.Parent = r.key()
	}
	if has(flagHasID) {
		c.ID = string(r.take(int(r.byte())))
	}
	if has(flagHasUser) {
		c.User = r.key()
	}
	if has(flagHasTrail) {
		t := &c.Trail
		t.ID, t.Repeats, t.Opening, t.Opened = c.ID, has(flagTrailRepeats), has(flagTrailOpening), has(flagTrailOpened)
		t.Main, t.Turn, t.Chat, t.Answer, t.StrictAnswer = r.uint64(), r.uint64(), r.uint64(), r.uint64(), r.uint64()
		if has(flagHasText) {
			t.Text, t.StrictText, t.Tail, t.Off = r.uint64(), r.uint64(), r.uint64(), r.byte()
			if t.Off >= session.TrailBlock {
				r.bad = true
			}
		}
	}
	m.base = 0
	if m.depth = r.int(); m.depth > 0 {
		m.base = r.uint64()
	}
	if m.rest = r.names(); m.depth > mostChain-len(m.rest) { // a prompt that goes on for ever is kept whole
		r.bad = true
	}
}
