package handover

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// Mooncake is vLLM's MooncakeConnector (vLLM 0.32.0, distributed/kv_transfer/kv_connector/v1/mooncake). Both engines
// are asked at once and meet by a transfer id from the router. The decoder is told the prefiller's engine id and its
// bootstrap server, which resolves that id. The router asks the same server for the id: GET http://HOST:8998/query
// answers {"0":{"engine_id":"...","worker_addr":{...}}}, by data-parallel rank.
//
// Like NIXL's, its engines trust their input, see Nixl. A decoder that lacks one of the members computes the prompt
// itself.
type Mooncake struct{}

// Name implements Connector.
func (Mooncake) Name() string { return "mooncake" }

// Order implements Connector.
func (Mooncake) Order() Order { return Together }

// Fits implements Connector.
func (Mooncake) Fits(x *Request) error { return Nixl{}.Fits(x) }

// Inquiry implements Inquirer.
func (Mooncake) Inquiry(x *Request) string { return bootstrapAddress(x) + "/query" }

// bootstrapAddress is the prefiller's bootstrap server: plain HTTP at the prefiller's host.
func bootstrapAddress(x *Request) string {
	host := hostOf(x.Prefiller.URL)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return "http://" + host + ":" + strconv.Itoa(bootstrapPortOf(x))
}

// transferID is unique per prefill leg.
func transferID(x *Request) string {
	id := x.ID
	if x.Attempt > 0 {
		id += "-" + strconv.Itoa(x.Attempt)
	}
	return "xfer-" + id + "-" + strconv.FormatUint(x.Random, 16)
}

// Prefill implements Connector.
func (m Mooncake) Prefill(x *Request) (Message, error) {
	params := `{"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":` + jsonString(transferID(x)) + `}`
	return Message{Set: onlyPrompt(x, params)}, nil
}

// Reply implements Connector: the reply adds nothing for the decoder.
func (Mooncake) Reply(x *Request, body []byte) (Handed, error) { return tokenReply(x, body) }

// Decode implements Connector.
func (m Mooncake) Decode(x *Request, _ *Handed) (Message, error) {
	params := `{"do_remote_decode":false,"do_remote_prefill":true,"transfer_id":` + jsonString(transferID(x))
	if id := m.engineID(x); id != "" {
		params += `,"remote_engine_id":` + id + `,"remote_bootstrap_addr":` + jsonString(bootstrapAddress(x))
	} else { // an older prefiller, whose bootstrap server has no queries
		host, port := jsonString(hostOf(x.Prefiller.URL)), strconv.Itoa(bootstrapPortOf(x))
		params += `,"remote_host":` + host + `,"remote_port":` + port + `,"bootstrap_server_host":` + host +
			`,"bootstrap_server_port":` + port
	}
	return Message{Set: []Member{{kvTransferParams, []byte(params + "}")}}}, nil
}

// engineID is the engine id of the prefiller's rank, as JSON; "" when unknown. Engines append _dp and the rank to their
// configured id and report that at their bootstrap server; if it reports one id for several ranks, it is appended here.
func (Mooncake) engineID(x *Request) string {
	told := bytes.TrimSpace(x.InquiryAnswer)
	rank := 0
	if x.Prefiller.Part.Kind == fleet.Rank {
		rank = x.Prefiller.Part.Index
	}
	entry, ok := rawjson.Member(told, strconv.Itoa(rank))
	if ok && !rawjson.IsNull(entry) {
		return idIn(entry)
	}
	entry, ok = rawjson.Member(told, "0")
	id := ""
	if ok && !rawjson.IsNull(entry) {
		id = idIn(entry)
	}
	if id == "" || rank == 0 || strings.Contains(id, "_dp") {
		return ""
	}
	return strings.TrimSuffix(id, `"`) + "_dp" + strconv.Itoa(rank) + `"`
}

// idIn is the engine id in one entry, as a JSON string.
func idIn(entry []byte) string {
	id, _ := rawjson.Member(entry, "engine_id")
	if len(id) < 3 || id[0] != '"' || len(id) > answer.MaxIDBytes {
		return ""
	}
	return string(id)
}

// Keeps implements Connector: a transfer id is used once.
func (Mooncake) Keeps(bool) bool { return false }

var (
	_ Connector = Mooncake{}
	_ Inquirer  = Mooncake{}
)
