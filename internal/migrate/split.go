package migrate

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/engine/handover"
)

// trtSplit reads when and how TensorRT-LLM splits requests: all of them, unless it asks the generation router first.
func (d *draft) trtSplit(root *node) {
	d.set(splitWhen, "always")
	if c := root.get("conditional_disagg_config"); c != nil {
		d.set(splitWhen, "uncached")
		limit := "0"
		if n := c.get("max_local_prefill_length"); n != nil && n.scalar {
			limit = cmp.Or(n.text, limit)
			n.used = true
		}
		c.used = true
		d.number(c.line, "conditional_disagg_config.max_local_prefill_length", limit, splitThreshold, 0, 1<<31)
	}
	if style := root.get("schedule_style"); style != nil {
		switch style.used = true; style.text {
		case "context_first":
		case "generation_first":
			d.set(splitConnector, "trtllm_generation_first")
		default:
			d.miss(style.line, "schedule_style"+show(style.text), "known: context_first, generation_first")
		}
	}
}

// connector says how vLLM's engines hand their KV cache over.
func (d *draft) connector(line int, name string) {
	if _, err := handover.ByName(name); err != nil {
		d.miss(line, "connector "+name, "known: "+strings.Join(handover.Names(), ", "))
		return
	}
	d.set(splitConnector, name)
}

// pdFlags are the switches and engines of split serving in SMG and vllm-router.
func pdFlags(d *draft, kind, bootstrap string, switches ...string) []flag {
	flags := []flag{
		{name: "prefill", takes: 2, do: func(line int, v []string) {
			e := d.worker(line, v[0], kind, rolePrefill)
			d.set(splitWhen, "always")
			if e == nil || len(v) < 2 || v[1] == "none" || v[1] == bootstrap {
				return
			}
			port, err := strconv.Atoi(v[1])
			if err != nil || port < 1 || port > 65535 {
				d.miss(line, "--prefill "+strings.Join(v, " "), "want a port between 1 and 65535 after the URL")
				return
			}
			e.bootstrap = port
		}},
		{name: "decode", takes: many, do: func(line int, urls []string) {
			for _, u := range urls {
				d.worker(line, u, kind, roleDecode)
			}
			d.set(splitWhen, "always")
		}},
	}
	for _, name := range switches {
		flags = append(flags, flag{name: name, do: func(int, []string) { d.set(splitWhen, "always") }})
	}
	return flags
}

// pdPolicies are the flags that name the policies of both sides.
func pdPolicies(d *draft, policyOf func(d *draft, line int, flag, name string) string) []flag {
	side := func(name, path string) flag {
		return one(name, func(line int, v string) {
			if p := policyOf(d, line, "--"+name, v); p != "" {
				d.set(path, p)
			}
		})
	}
	return []flag{
		side("prefill-policy", "disaggregation.prefill_policy"), side("decode-policy", "disaggregation.decode_policy"),
	}
}
