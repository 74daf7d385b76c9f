package discovery

import "testing"

func TestKVEvents(t *testing.T) {
	for _, c := range []struct {
		c  EndpointConfig
		ok bool
	}{
		{EndpointConfig{KVEvents: "tcp://h:5557", KVReplay: "tcp://h:5657"}, true},
		{EndpointConfig{KVEvents: "tcp://[::1]:5557"}, true},
		{EndpointConfig{KVEvents: "off"}, true},
		{EndpointConfig{KVEvents: "listen"}, true},
		{EndpointConfig{KVEvents: "listen", KVReplay: "tcp://h:5657", Kind: "vllm"}, true},
		{EndpointConfig{KVEvents: "listen", KVReplay: "h:5657"}, false},
		{EndpointConfig{KVEvents: "listen", Kind: "trtllm"}, false},
		{EndpointConfig{KVEvents: "poll"}, true},
		{EndpointConfig{KVEvents: "poll", Kind: "trtllm"}, true},
		{EndpointConfig{KVEvents: "poll", Kind: "vllm"}, false},
		{EndpointConfig{KVEvents: "poll", KVReplay: "tcp://h:1"}, false},
		{EndpointConfig{KVReplay: "tcp://h:1"}, false},
		{EndpointConfig{KVEvents: "tcp://*:5557"}, false},
		{EndpointConfig{KVEvents: "tcp://h"}, false},
		{EndpointConfig{KVEvents: "tcp://h:0"}, false},
		{EndpointConfig{KVEvents: "tcp://h:65535", Ranks: 2}, false},
		{EndpointConfig{KVEvents: "http://h:5557"}, false},
		{EndpointConfig{KVEvents: "tcp://h:5557", KVReplay: "h:1"}, false},
		{EndpointConfig{KVEvents: "tcp://h:5557", Kind: "llamacpp"}, false},
		{EndpointConfig{KVEvents: "off", Slots: 2}, false},
	} {
		c.c.URL = "http://h:8000"
		if err := c.c.Validate(); (err == nil) != c.ok {
			t.Errorf("%+v: %v, want ok %v", c.c, err, c.ok)
		}
	}
	c, err := ParseEndpoint("http://h:8000,ranks=2,kv_events=tcp://h:5557,kv_replay=tcp://h:5657,kv_topic=kv")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Endpoints([]EndpointConfig{c}, Keys{})
	if err != nil || len(all) != 2 || all[1].KVEvents != "tcp://h:5557" || all[1].KVReplay != "tcp://h:5657" ||
		all[1].KVTopic != "kv" {
		t.Errorf("%+v, %v", all, err)
	}
}
