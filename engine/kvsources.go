package engine

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/fleet"
)

// readKVSources reads vLLM's /kv_event_sources (since 0.32): the address of the KV events of each data-parallel rank.
func readKVSources(a Answer, r *fleet.Report) error {
	var ranks map[string]struct {
		Events string `json:"endpoint"`
		Replay string `json:"replay_endpoint"`
		Topic  string `json:"topic"`
	}
	if err := decode(a, &ranks); err != nil {
		return err
	}
	numbers := make([]int, 0, len(ranks))
	for _, number := range slices.Sorted(maps.Keys(ranks)) {
		if n := rankOf([]byte(number)); n >= 0 && strconv.Itoa(n) == number {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	var sources []fleet.KVSource
	for _, n := range numbers {
		rank := n - numbers[0] // counted from the engine's first, as endpoints are
		s := ranks[strconv.Itoa(n)]
		if s.Events != "" && len(s.Events)+len(s.Replay)+len(s.Topic) <= 4*maxNameBytes {
			sources = append(sources, fleet.KVSource{Rank: rank, Events: s.Events, Replay: s.Replay, Topic: s.Topic})
		}
	}
	if sources != nil {
		r.KVSources = sources
	}
	return nil
}

// tcpAddress is a ZeroMQ address; "" for an invalid port.
func tcpAddress(host string, port, rank int) string {
	if port < 1 || port+rank > 65535 {
		return ""
	}
	if strings.ContainsRune(host, ':') {
		host = "[" + host + "]"
	}
	return "tcp://" + host + ":" + strconv.Itoa(port+rank)
}
