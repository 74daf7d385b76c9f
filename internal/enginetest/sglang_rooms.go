package enginetest

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// rooms are the members by which two servers meet.
type rooms struct {
	Host json.RawMessage `json:"bootstrap_host"`
	Port json.RawMessage `json:"bootstrap_port"`
	Room json.RawMessage `json:"bootstrap_room"`
	Rank *int            `json:"disagg_prefill_dp_rank"`
}

// bodyHeader is where read notes the hash of a request's body, for this server alone.
const bodyHeader = "X-Sim-Body"

// sameOnBoth is the hash of what both legs must have the same: all but the ranks.
func sameOnBoth(body []byte) string {
	var v map[string]json.RawMessage
	if json.Unmarshal(body, &v) != nil {
		return ""
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
	return strconv.FormatUint(xxh3.Hash(appendJSON(nil, v)), 10)
}

// readRoom reads what a request of SGLang says about a room.
func (s *Server) readRoom(r *http.Request, f *fields, a *ask) error {
	if s.opts.Connector != "sglang" {
		return nil
	}
	if s.opts.Role == fleet.RoleBoth {
		if present(f.Room) {
			return s.refuse("a server that is not disaggregated was sent a leg")
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
			return s.refuse("a bootstrap member is %s: %v", *value, err)
		}
	}
	body, _ := strconv.ParseUint(r.Header.Get(bodyHeader), 10, 64)
	a.meet = &meetAsk{prefill: s.opts.Role == fleet.RolePrefill, key: "room " + strconv.FormatInt(room, 10), body: body, rank: -1, first: true}
	switch {
	case room < 0:
		return s.refuse("the room is %d", room)
	case a.meet.prefill && port != s.BootstrapPort():
		return s.refuse("the bootstrap port is %d, this server's is %d", port, s.BootstrapPort())
	case a.meet.prefill && f.Rank != nil:
		return s.refuse("a prefill server was told a prefill rank")
	case a.meet.prefill:
		if a.rank < 0 {
			a.rank = int(room % int64(s.opts.Ranks))
		}
		return nil
	}
	if f.Rank != nil {
		a.meet.rank = *f.Rank
	}
	a.meet.at = "http://" + net.JoinHostPort(host, strconv.Itoa(port))
	return nil
}

// sglangMode is what /server_info says of the server's role.
func (s *Server) sglangMode() string {
	if s.opts.Connector != "sglang" || s.opts.Role == fleet.RoleBoth {
		return "null"
	}
	return string(s.opts.Role)
}
