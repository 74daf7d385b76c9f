package migrate

import (
	"net"
	"strings"
)

// events reads how KV events come. zmqEndpoint is where the endpoint picker listens and engines dial in, discoverPods
// has it dial the engines.
func (p *llmd) events(of *node) {
	c := of.get("kvEventsConfig")
	if c == nil {
		return
	}
	c.used = true
	if at := c.get("zmqEndpoint"); at != nil {
		p.listen(at, c.take("zmqEndpoint"))
	}
	if at := c.get("topicFilter"); at != nil {
		if filter := c.take("topicFilter"); !strings.HasPrefix("kv@", filter) {
			p.d.miss(at.line, "topicFilter"+show(filter), "every topic is heard: state at each endpoint which is its "+
				"own (kv_topic), where it is not kv@POD@MODEL")
		}
	}
	c.take("concurrency")
	c.take("engineType")
	pods := c.get("podDiscoveryConfig")
	if at := c.get("discoverPods"); at != nil && c.take("discoverPods") == "false" {
		pods.usedWhole()
		return
	}
	if pods == nil {
		return
	}
	port, replay := pods.take("socketPort"), pods.take("replaySocketPort")
	pods.usedWhole()
	why := "engines are asked where they publish; for those that do not say state it: discovery.dns kv_events: tcp://*:"
	if port == "" {
		port = "5557"
	}
	if why += port; replay != "" {
		why += ", kv_replay: tcp://*:" + replay
	}
	p.d.miss(pods.line, "podDiscoveryConfig", why)
}

// listen has the router listen where the endpoint picker did.
func (p *llmd) listen(at *node, endpoint string) {
	rest, tcp := strings.CutPrefix(endpoint, "tcp://")
	if endpoint == "" {
		return
	}
	if _, port, err := net.SplitHostPort(rest); !tcp || err != nil || port == "" {
		p.d.miss(at.line, "zmqEndpoint"+show(endpoint),
			"kv_events.listen takes tcp://HOST:PORT, with * for every interface")
		return
	}
	p.d.set("kv_events.listen", endpoint)
	p.d.miss(at.line, "zmqEndpoint (who may dial in)", "private networks may; kv_events.allow names others. "+
		"Engines must dial the router: endpoint tcp://ROUTER:PORT, topic kv@POD@MODEL")
}
