package enginetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/fleet"
)

// SGLang's hand-over (0.5.23), a server for each role. A prefill server computes a prompt when its decoder has come into the room, and
// answers with one token when the KV cache has been fetched; either waits for the other. A request without a room is a 400, as with
// the real ones. Refused, and counted in Stats.KV.Refused, is what would end badly there: a room that is used twice, legs that differ,
// a bootstrap address of somebody else, a room or rank that leads to another rank than the one that computes.

type sglangRooms struct{ *meetingHost }

// rooms are the members by which two servers meet.
type rooms struct {
	Host json.RawMessage `json:"bootstrap_host"`
	Port json.RawMessage `json:"bootstrap_port"`
	Room json.RawMessage `json:"bootstrap_room"`
	Rank *int            `json:"disagg_prefill_dp_rank"`
}

// sameOnBoth is the hash of what both legs must have the same: all but the ranks.
func sameOnBoth(body []byte) uint64 {
	var v map[string]json.RawMessage
	if json.Unmarshal(body, &v) != nil {
		return 0
	}
	for _, name := range []string{"routed_dp_rank", "data_parallel_rank", "disagg_prefill_dp_rank"} {
		delete(v, name)
	}
	for name, value := range v {
		var compact bytes.Buffer
		if json.Compact(&compact, value) == nil {
			v[name] = compact.Bytes()
		}
	}
	return xxh3.Hash(appendJSON(nil, v))
}

// Placed implements connector: it reads what a request of SGLang says about a room.
func (h *sglangRooms) Placed(_ *http.Request, f *fields, a *ask) error {
	if h.config.Role == fleet.RoleBoth {
		if present(f.Room) {
			return h.refuse("a server that is not disaggregated was sent a leg")
		}
		return nil
	}
	if !present(f.Room) {
		return &badRequest{
			status: http.StatusBadRequest, kind: "BadRequestError",
			msg: fmt.Sprintf("Invalid request: Disaggregated request received without bootstrap room id. req.rid='%s'", a.id),
		}
	}
	var host string
	var port int
	var room int64
	for value, into := range map[*json.RawMessage]any{&f.Host: &host, &f.Port: &port, &f.Room: &room} {
		if err := json.Unmarshal(*value, into); err != nil {
			return h.refuse("a bootstrap member is %s: %v", *value, err)
		}
	}
	k := &meetLeg{prefill: h.config.Role == fleet.RolePrefill, key: "room " + strconv.FormatInt(room, 10), body: sameOnBoth(f.body), rank: -1, first: true}
	a.leg = k
	switch {
	case room < 0:
		return h.refuse("the room is %d", room)
	case k.prefill && port != h.BootstrapPort():
		return h.refuse("the bootstrap port is %d, this server's is %d", port, h.BootstrapPort())
	case k.prefill && f.Rank != nil:
		return h.refuse("a prefill server was told a prefill rank")
	case k.prefill:
		if a.rank < 0 {
			a.rank = int(room % int64(h.engine.Ranks))
		}
		return nil
	}
	if f.Rank != nil {
		k.rank = *f.Rank
	}
	k.at = "http://" + net.JoinHostPort(host, strconv.Itoa(port))
	return nil
}

// Adjust implements connector: a prefill leg is answered with one token.
func (h *sglangRooms) Adjust(ans *answer, _ uint64, _ int) {
	if k, _ := ans.ask.leg.(*meetLeg); k != nil && k.prefill {
		ans.cutToOne()
	}
}

// Listen implements connector: it opens the bootstrap port.
func (h *sglangRooms) Listen(host string) error {
	m := http.NewServeMux()
	m.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "OK") })
	return h.listen(host, m)
}
