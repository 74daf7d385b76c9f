package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/fleet"
)

func TestKVSources(t *testing.T) {
	for _, c := range []struct {
		kind fleet.Kind
		ask  Answer
		want []fleet.KVSource
	}{
		{
			fleet.KindVLLM,
			Answer{Ask: AskEvents, Path: "/kv_event_sources", Status: 200, Body: []byte(
				`{"0":{"endpoint":"tcp://*:19001","replay_endpoint":"tcp://*:19002","topic":"kv@tiny"},"1":{"endpoint":"tcp://*:19003","replay_endpoint":null,"topic":""}}`)},
			[]fleet.KVSource{
				{Events: "tcp://*:19001", Replay: "tcp://*:19002", Topic: "kv@tiny"},
				{Rank: 1, Events: "tcp://*:19003"},
			},
		},
		{fleet.KindVLLM, Answer{Ask: AskEvents, Path: "/kv_event_sources", Status: 200, Body: []byte(`{}`)}, nil},
		{ // a second node
			fleet.KindVLLM,
			Answer{
				Ask: AskEvents, Path: "/kv_event_sources", Status: 200, Body: []byte(
					`{"5":{"endpoint":"tcp://*:2"},"4":{"endpoint":"tcp://*:1"},"x":{"endpoint":"tcp://*:9"}}`),
			},
			[]fleet.KVSource{{Events: "tcp://*:1"}, {Rank: 1, Events: "tcp://*:2"}},
		},
		{
			fleet.KindSGLang,
			Answer{Ask: AskInfo, Path: "/server_info", Status: 200, Body: []byte(
				`{"dp_size":2,"page_size":32,"kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":5557,"topic":"t","dp_size":2,"replay_endpoint_port_base":5657}}`)},
			[]fleet.KVSource{
				{Events: "tcp://*:5557", Replay: "tcp://*:5657", Topic: "t"},
				{Rank: 1, Events: "tcp://*:5558", Replay: "tcp://*:5658", Topic: "t"},
			},
		},
		{fleet.KindSGLang, Answer{
			Ask: AskInfo, Path: "/server_info", Status: 200,
			Body: []byte(`{"dp_size":1,"page_size":32,"kv_events":null}`),
		}, nil},
		{fleet.KindSGLang, Answer{Ask: AskInfo, Path: "/server_info", Status: 200, Body: []byte(
			`{"dp_size":1,"page_size":32,"kv_events":{"endpoint_host":"*","endpoint_port_base":70000}}`)}, nil},
	} {
		d, err := ByKind(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		var r fleet.Report
		if err := d.Read(c.ask, fleet.Part{}, &r); err != nil {
			t.Errorf("%s: %v", c.ask.Body, err)
		}
		if diff := cmp.Diff(c.want, r.KVSources); diff != "" {
			t.Errorf("%s: %s", c.ask.Body, diff)
		}
	}
}

func TestReadTokens(t *testing.T) {
	got, err := ReadTokens([]byte(`{"count":3,"max_model_len":4096,"tokens":[1,4294967295,7],"token_strs":null}`))
	if diff := cmp.Diff([]uint32{1, 4294967295, 7}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, bad := range []string{
		`{"tokens":[-1]}`, `{"tokens":[]}`, `{"error":"x"}`, `[1]`, `{"tokens":[[1],[2]]}`, ``,
	} {
		if _, err := ReadTokens([]byte(bad)); err == nil {
			t.Errorf("%s was taken for tokens", bad)
		}
	}
}
