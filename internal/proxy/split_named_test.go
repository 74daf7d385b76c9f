package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

// named are engines that note whom each leg names, and fail as they are told to.
type named struct {
	mu      sync.Mutex
	fails   []int               // what becomes of the next requests: 0 is good
	legs    map[string]namedLeg // the latest prefill leg, by what identifies it
	decodes int                 // decode legs that came
	wrong   []string
	twice   map[string]string // who was asked with an identity that is used once
}

// namedLeg is a prefill leg: who got it, and which decoder it names, "" for none.
type namedLeg struct{ prefiller, decoder string }

// told is what an engine finds in a leg.
type told struct {
	key       string // what both legs have the same
	once      bool   // it is new with each attempt
	prefiller string // whom a decode leg names, by port; "" for nobody
	decoder   string // whom a prefill leg names, by port; "" for nobody
}

// readNamed finds in the body and headers of a leg whom it names. Ports stand for engines.
func readNamed(conn string, r *http.Request, body []byte, prefill bool) (t told) {
	var v struct {
		Room   json.Number `json:"bootstrap_room"`
		Port   json.Number `json:"bootstrap_port"`
		Params struct {
			Transfer  string      `json:"transfer_id"`
			Bootstrap string      `json:"remote_bootstrap_addr"`
			Port      json.Number `json:"remote_port"`
			Notify    json.Number `json:"remote_notify_port"`
			Engine    string      `json:"remote_engine_id"`
			Spec      struct {
				ID   string        `json:"req_id"`
				Init []json.Number `json:"receiver_init_port"`
			} `json:"disagg_spec"`
		} `json:"kv_transfer_params"`
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	_ = d.Decode(&v)
	p := &v.Params
	switch conn {
	case "sglang":
		if v.Room == "" {
			return t
		}
		t = told{key: v.Room.String(), once: true, prefiller: v.Port.String()}
	case "mooncake":
		t = told{key: p.Transfer, once: true}
		if !prefill && t.key != "" {
			t.prefiller = p.Bootstrap[strings.LastIndexByte(p.Bootstrap, ':')+1:]
		}
	case "moriio", "moriio_read":
		if p.Transfer == "" {
			return t
		}
		id := r.Header.Get("X-Request-Id")
		from, to, _ := strings.Cut(id, "___decode_addr_")
		t = told{key: p.Transfer, once: true, prefiller: from[strings.LastIndexByte(from, ':')+1:]}
		to, _, _ = strings.Cut(to[strings.LastIndexByte(to, ':')+1:], "_")
		t.decoder = to
		peer := t.prefiller
		if prefill {
			peer = t.decoder
		}
		if p.Notify.String() != peer && (prefill || conn == "moriio") { // in read mode the prefiller says where it is
			t.decoder = "the parameters and the request id differ"
		}
	case "lmcache":
		t = told{key: r.Header.Get("X-Request-Id")}
		if prefill && len(p.Spec.Init) == 1 {
			t.decoder = p.Spec.Init[0].String()
		}
	case "nixl":
		t = told{key: r.Header.Get("X-Request-Id")}
		if !prefill {
			t.prefiller = p.Engine
		}
	}
	return t
}

// handler is one engine, whose number is its port in what legs say.
func (n *named) handler(conn, number string, prefill bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // a leg that was given up while it was sent: it asks for nothing
		}
		t := readNamed(conn, r, body, prefill)
		n.mu.Lock()
		what := 0
		if len(n.fails) > 0 {
			what, n.fails = n.fails[0], n.fails[1:]
		}
		if prefill {
			if other := n.twice[t.key]; t.once && other != "" {
				n.wrong = append(n.wrong, "the id "+t.key+" was given to "+other+" and "+number)
			}
			n.twice[t.key] = number
			if n.legs[t.key] = (namedLeg{prefiller: number, decoder: t.decoder}); what != 0 && what != 4 && !t.once {
				delete(n.legs, t.key) // nothing is handed over
			}
			if t.prefiller != "" && t.prefiller != number {
				n.wrong = append(n.wrong, number+" was told that the prefiller is "+t.prefiller)
			}
		} else {
			n.decode(t, number)
			if !t.once && what != 0 && what != 4 {
				delete(n.legs, t.key)
			}
		}
		n.mu.Unlock()
		switch what {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			panic(http.ErrAbortHandler)
		default:
			params := fmt.Sprintf(`{"do_remote_prefill":true,"remote_engine_id":%q,"remote_block_ids":[[1]],"remote_host":"127.0.0.1","remote_port":1,"transfer_id":%q}`, number, t.key)
			_, _ = io.WriteString(w,
				`{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"length"}],"kv_transfer_params":`+
					params+`,"usage":{"prompt_tokens":20,"completion_tokens":1}}`)
		}
	}
}

// decode compares a decode leg with the prefill leg before or beside it; mu is held.
func (n *named) decode(t told, number string) {
	leg, ok := n.legs[t.key]
	if t.key == "" || !t.once && !ok {
		return // a whole request
	}
	n.decodes++
	switch {
	case t.decoder != "" && t.decoder != number:
		n.wrong = append(n.wrong, number+" was told that the decoder is "+t.decoder)
	case !ok: // its prefill leg is still on its way, or never arrived
		n.legs[t.key] = namedLeg{prefiller: t.prefiller, decoder: number}
	case leg.decoder != "" && leg.decoder != number:
		n.wrong = append(n.wrong, "the prefiller was told "+leg.decoder+", the request went to "+number)
	case t.prefiller != "" && t.prefiller != leg.prefiller:
		n.wrong = append(n.wrong, number+" was told to fetch from "+t.prefiller+", the prompt went to "+leg.prefiller)
	}
}

// TestNamedDecoderGetsTheRequest: over every protocol that names one engine to the other, whatever fails and however
// often is retried, the decoder that the prefiller was told is the one that gets the request, and the prefiller that
// the decoder was told the one that computed the prompt. Ids that are used once are given to nobody twice.
func TestNamedDecoderGetsTheRequest(t *testing.T) {
	for _, conn := range append([]handover.Connector{handover.Nixl{}, handover.LMCache{}}, meetingPoints...) {
		t.Run(conn.Name(), func(t *testing.T) {
			n := &named{legs: map[string]namedLeg{}, twice: map[string]string{}}
			kind := fleet.KindVLLM
			if conn.Name() == "sglang" {
				kind = fleet.KindSGLang
			}
			var declared []fleet.Endpoint
			receivers := &handover.Receivers{Registry: map[string]handover.Receiver{}}
			for i := range 6 {
				number, name := fmt.Sprint(7001+i), fmt.Sprintf("%c%d", "pd"[i/3], i%3)
				if i < 3 && conn.Name() == "mooncake" { // its bootstrap server is asked
					boot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						_, _ = io.WriteString(w, `{"0":{"engine_id":"e"}}`)
					}))
					t.Cleanup(boot.Close)
					number = boot.URL[strings.LastIndexByte(boot.URL, ':')+1:]
				}
				s := httptest.NewServer(n.handler(conn.Name(), number, i < 3))
				t.Cleanup(s.Close)
				e := fleet.Endpoint{
					Name: name, URL: s.URL, Weight: 1, Kind: kind, Role: fleet.RolePrefill,
					KVAddress: "host:127.0.0.1,handshake:1,notify:" + number,
				}
				if i >= 3 {
					e.Role = fleet.RoleDecode
					receivers.Registry[name] = handover.Receiver{
						Host: "127.0.0.1", InitPorts: []int{7001 + i}, AllocPorts: []int{1},
					}
				} else {
					e.BootstrapPort, _ = strconv.Atoi(number)
				}
				declared = append(declared, e)
			}
			rig := splitRig(t,
				pairs{split: always, proxy: proxy.Config{Connector: conn, Receiver: receivers.Of}}, declared)
			asked := 0
			rapid.Check(t, func(rt *rapid.T) {
				fails := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 8).Draw(rt, "fails")
				n.mu.Lock()
				n.fails, n.wrong = fails, nil
				n.mu.Unlock()
				for range rapid.IntRange(1, 3).Draw(rt, "requests") {
					asked++
					rig.post("/v1/chat/completions", chatOf(fmt.Sprintf("request %d", asked), `,"max_tokens":4`))
				}
				n.mu.Lock()
				defer n.mu.Unlock()
				if len(n.wrong) > 0 {
					rt.Fatal(strings.Join(n.wrong, "; "))
				}
			})
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.decodes < asked/4 {
				t.Errorf("of %d requests %d reached a decoder in two legs", asked, n.decodes)
			}
		})
	}
}
