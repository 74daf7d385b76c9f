package migrate

import (
	"cmp"
	"strings"
)

// readLLMDHelm reads the values of llm-d's Helm charts, or of the Gateway API inference extension's before them, as the
// configuration and the command line that the charts make of them for the endpoint picker
// (config/charts/routerlib/templates). It reports false for a file that is none.
func readLLMDHelm(d *draft, root *node) bool {
	picker, pool, latency := root.get("router", "epp"), root.get("router"), root.get("router", "latencyPredictor")
	if old := root.get("inferenceExtension"); old != nil {
		picker, pool, latency = old, root.get("inferencePool"), old.get("latencyPredictor")
	}
	servers := pool.get("modelServers")
	if picker == nil && servers == nil {
		return false
	}
	// What the charts say of pods and images is not the router's: only these keys of it are.
	defer root.usedWhole()
	var words []word
	var labels, ports []string
	if at := servers.get("matchLabels"); at != nil {
		for _, l := range at.items {
			labels = append(labels, l.key+"="+l.text)
		}
		words = append(words, word{"--endpoint-selector", at.line}, word{strings.Join(labels, ","), at.line})
	}
	at := pool.get("targetPorts")
	if at == nil {
		at = servers.get("targetPorts")
	}
	if at != nil {
		for _, p := range at.items {
			ports = append(ports, p.take("number"))
		}
	}
	port := cmp.Or(strings.Join(ports, ","), pool.take("targetPortNumber"), "8000")
	words = append(words, word{"--endpoint-target-ports", root.line}, word{port, root.line})
	d.read(words, llmdFlags(d))

	file := cmp.Or(picker.take("pluginsConfigFile"), "default-plugins.yaml")
	if own := picker.get("pluginsConfig"); own != nil && len(own.items) > 0 {
		readLLMD(d, own)
		return true
	}
	text := picker.get("pluginsCustomConfig", file)
	switch {
	case text != nil && text.scalar:
		config, err := parseTree(file, []byte(text.text))
		if err != nil {
			d.miss(text.line, file, err.Error())
			return true
		}
		config.below(text.line)
		readLLMD(d, config)
		d.leftovers(config, "")
	case latency.take("enabled") == "true":
		d.set("policy.name", "least_ttft") // the charts' own configuration weighs predicted latencies then
	case file == "default-plugins.yaml":
		d.set("policy.name", "llmd.default")
	default:
		d.set("policy.name", "llmd.default")
		d.miss(picker.get("pluginsConfigFile").line, "pluginsConfigFile "+file,
			"it is not among pluginsCustomConfig: give that file itself")
	}
	return true
}

// below moves a tree of its own text, which begins in the line after this one of the file, to its place there.
func (n *node) below(line int) {
	n.line += line
	for _, item := range n.items {
		item.below(line)
	}
}
