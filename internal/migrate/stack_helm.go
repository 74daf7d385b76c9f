package migrate

import (
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
	var words []word
	add := func(flag, value string, n *node) {
		line := root.line
		if n != nil {
			line = n.line
		}
		words = append(words, word{text: "--" + flag, line: line}, word{text: value, line: line})
	}
	has := func(n *node, path ...string) (*node, string) {
		at := n.get(path...)
		if at == nil || !at.scalar {
			return at, ""
		}
		return at, at.text
	}
	if at, on := has(router, "enableRouter"); on == "false" {
		d.miss(at.line, "routerSpec.enableRouter", "the chart makes no router with these values")
	}
	add("host", "0.0.0.0", router)
	port, text := has(router, "containerPort")
	if text == "" {
		text = "8000"
	}
	add("port", text, port)
	discovery, how := has(router, "serviceDiscovery")
	if how == "" {
		how = "k8s"
	}
	add("service-discovery", how, discovery)
	if how == "k8s" {
		var labels []string
		_, on := has(engines, "enableEngine")
		at := engines.get("labels")
		if at != nil && on != "false" {
			for _, l := range at.items {
				labels = append(labels, l.key+"="+l.text)
			}
		}
		if labels == nil {
			labels = []string{"environment=test", "release=test"} // the chart's own
		}
		add("k8s-label-selector", strings.Join(labels, ","), at)
		if at, text := has(engines, "containerPort"); text != "" {
			add("k8s-port", text, at)
		}
	}
	for _, f := range [][2]string{
		{"staticBackends", "static-backends"},
		{"staticModels", "static-models"},
		{"routingLogic", "routing-logic"},
		{"sessionKey", "session-key"},
		{"engineScrapeInterval", "engine-stats-interval"},
		{"requestStatsWindow", "request-stats-window"},
		{"lmcacheControllerPort", "lmcache-controller-port"},
	} {
		if at, text := has(router, f[0]); text != "" {
			add(f[1], text, at)
		}
	}
	if extra := router.get("extraArgs"); extra != nil {
		for _, a := range extra.items {
			words = append(words, word{text: a.text, line: a.line})
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
	d.read(words, stackFlags(d))
	return true
}
