package send

import "github.com/warmpath/warmpath/engine/rawjson"

// OwnLimit reports whether the client says how long its answer may take, as LiteLLM lets it in the body and in headers.
// LiteLLM answers 408 to what takes longer.
func (c *Incoming) OwnLimit() bool {
	for _, name := range []string{"X-Litellm-Timeout", "X-Litellm-Stream-Timeout"} {
		if len(c.R.Header[name]) > 0 {
			return true
		}
	}
	limits, _ := rawjson.Members(c.Text(), "timeout", "stream_timeout")
	return !rawjson.IsNull(limits[0]) || !rawjson.IsNull(limits[1])
}
