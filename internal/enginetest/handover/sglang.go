package handover

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
	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// SGLang's protocol (0.5.23), with a server per role. A prefill server computes a prompt when its decoder has joined
// the room, and answers with one token when the KV cache has been fetched; each waits for the other. A request without
// a room is a 400, as with real servers. Rejected and counted in Stats.KV.Refused are a room used twice, legs that
// differ, the bootstrap address of another server, and a room or rank that leads to another rank than the one that
// computes.

type sglang struct{ *meetingHost }

// sameOnBoth is the hash of the members that must be equal on both legs: all but the ranks.
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
	return xxh3.Hash(prompts.AppendJSON(nil, v))
}

// Placed implements connector: it reads a request's room.
func (h *sglang) Placed(_ *http.Request, f *api.Fields, a *api.Ask) error {
	if h.config.Role == fleet.RoleBoth {
		if prompts.Present(f.Room) {
			return h.refuse("a server that is not disaggregated was sent a leg")
		}
		return nil
	}
	if !prompts.Present(f.Room) {
		return &api.Error{
			Status: http.StatusBadRequest, Kind: "BadRequestError",
			Msg: fmt.Sprintf("Invalid request: Disaggregated request received without bootstrap room id. req.rid='%s'",
				a.Id),
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
	k := &meetLeg{
		prefill: h.config.Role == fleet.RolePrefill, key: "room " + strconv.FormatInt(room, 10),
		body: sameOnBoth(f.Body), rank: -1, first: true,
	}
	a.Leg = k
	switch {
	case room < 0:
		return h.refuse("the room is %d", room)
	case k.prefill && port != h.BootstrapPort():
		return h.refuse("the bootstrap port is %d, this server's is %d", port, h.BootstrapPort())
	case k.prefill && f.Rank != nil:
		return h.refuse("a prefill server was told a prefill rank")
	case k.prefill:
		if a.Rank < 0 {
			a.Rank = int(room % int64(h.engine.Ranks))
		}
		return nil
	}
	if f.Rank != nil {
		k.rank = *f.Rank
	}
	k.at = "http://" + net.JoinHostPort(host, strconv.Itoa(port))
	return nil
}

// Adjust implements connector: a prefill leg gets one token.
func (h *sglang) Adjust(ans *api.Answer, _ uint64, _ int) {
	if k, _ := ans.Ask.Leg.(*meetLeg); k != nil && k.prefill {
		ans.CutToOne()
	}
}

// Listen implements connector: it opens the bootstrap port.
func (h *sglang) Listen(host string) error {
	m := http.NewServeMux()
	m.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "OK") })
	return h.listen(host, m)
}
