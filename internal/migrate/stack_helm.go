package migrate

import (
	"cmp"
	"strings"
)

// readStackHelm reads the values of production-stack's Helm chart as the command line that the chart makes of them for
// its router (helm/templates/deployment-router.yaml). It reports false for a file that is none.
func readStackHelm(d *draft, root *node) bool {
	router, engines := root.get("routerSpec"), root.get("servingEngineSpec")
	if router == nil && engines == nil {
		return false
	}
	// What the chart says of pods, images and engines is not the router's: only these keys of it are.
	defer root.usedWhole()
	c := chart{root: root}
	if at, on := text(router, "enableRouter"); on == "false" {
		d.miss(at.line, "routerSpec.enableRouter", "the chart makes no router with these values")
	}
	c.add("host", "0.0.0.0", router)
	port, number := text(router, "containerPort")
	c.add("port", cmp.Or(number, "8000"), port)
	c.addDiscovery(router, engines)
	for _, f := range [][2]string{
		{"staticBackends", "static-backends"},
		{"staticModels", "static-models"},
		{"routingLogic", "routing-logic"},
		{"sessionKey", "session-key"},
		{"engineScrapeInterval", "engine-stats-interval"},
		{"requestStatsWindow", "request-stats-window"},
		{"lmcacheControllerPort", "lmcache-controller-port"},
	} {
		if at, value := text(router, f[0]); value != "" {
			c.add(f[1], value, at)
		}
	}
	if extra := router.get("extraArgs"); extra != nil {
		for _, a := range extra.items {
			c.words = append(c.words, word{text: a.text, line: a.line})
		}
	}
	for _, section := range []*node{engines, router} {
		if at := section.get("vllmApiKey"); at != nil &&
			(at.text != "" || at.get("secretName") != nil && at.get("secretName").text != "") {
			d.miss(at.line, at.key, "engines ask for a key: mount the secret and name the variable in api_key_env "+
				"(engine.api_key_env below discovery.kubernetes)")
			break
		}
	}
	d.read(c.words, stackFlags(d))
	return true
}

// chart is the command line that a chart makes of its values.
type chart struct {
	root  *node
	words []word
}

// add adds a flag, whose value is at a line of the file.
func (c *chart) add(flag, value string, at *node) {
	line := c.root.line
	if at != nil {
		line = at.line
	}
	c.words = append(c.words, word{text: "--" + flag, line: line}, word{text: value, line: line})
}

// addDiscovery adds how the chart's router finds the engines that the chart makes.
func (c *chart) addDiscovery(router, engines *node) {
	discovery, how := text(router, "serviceDiscovery")
	how = cmp.Or(how, "k8s")
	c.add("service-discovery", how, discovery)
	if how != "k8s" {
		return
	}
	var labels []string
	_, on := text(engines, "enableEngine")
	at := engines.get("labels")
	if at != nil && on != "false" {
		for _, l := range at.items {
			labels = append(labels, l.key+"="+l.text)
		}
	}
	if labels == nil {
		labels = []string{"environment=test", "release=test"} // the chart's own
	}
	c.add("k8s-label-selector", strings.Join(labels, ","), at)
	if at, value := text(engines, "containerPort"); value != "" {
		c.add("k8s-port", value, at)
	}
}

// text is an entry and its text; "" where it is none, or has more than text.
func text(n *node, path ...string) (*node, string) {
	at := n.get(path...)
	if at == nil || !at.scalar {
		return at, ""
	}
	return at, at.text
}
