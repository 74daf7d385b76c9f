package tokenizer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/jinja"
)

// messages are a chat's messages as TensorRT-LLM passes them to the template (tensorrt_llm/serve/chat_utils.py,
// parse_chat_message_content): role, content as one text, an assistant's tool calls and reasoning, and the call that a
// tool answers. Other fields are dropped.
func messages(raw []byte) ([]*jinja.Dict, error) {
	in, err := objects(raw)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: messages%w", err)
	}
	out := make([]*jinja.Dict, len(in))
	for i := range in {
		if out[i], err = message(in[i]); err != nil {
			return nil, fmt.Errorf("tokenizer: messages[%d]: %w", i, err)
		}
	}
	return out, nil
}

// objects reads a list of objects.
func objects(raw []byte) ([]*jinja.Dict, error) {
	v, err := jinja.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	list, ok := v.(*jinja.List)
	if !ok {
		return nil, errors.New(": is not a list")
	}
	out := make([]*jinja.Dict, len(list.Items))
	for i, v := range list.Items {
		if out[i], ok = v.(*jinja.Dict); !ok {
			return nil, fmt.Errorf("[%d]: is not an object", i)
		}
	}
	return out, nil
}

// listOf makes a list for a template.
func listOf(dicts []*jinja.Dict) *jinja.List {
	items := make([]any, len(dicts))
	for i, d := range dicts {
		items[i] = d
	}
	return &jinja.List{Items: items}
}

// field is the value of a key; nil if it is missing.
func field(d *jinja.Dict, key string) any {
	v, _ := d.Get(key)
	return v
}

func message(in *jinja.Dict) (*jinja.Dict, error) {
	role, ok := field(in, "role").(string)
	if !ok {
		return nil, errors.New("has no role")
	}
	content, err := contentText(field(in, "content"))
	if err != nil {
		return nil, err
	}
	out := jinja.NewDict()
	out.Set("role", role)
	out.Set("content", content)
	out.Set("media", &jinja.List{})
	switch role {
	case "assistant":
		reasoning := field(in, "reasoning")
		if reasoning == nil {
			reasoning = field(in, "reasoning_content")
		}
		if reasoning != nil {
			out.Set("reasoning_content", reasoning)
		}
		if calls := field(in, "tool_calls"); calls != nil {
			list, err := toolCalls(calls)
			if err != nil {
				return nil, err
			}
			out.Set("tool_calls", list)
		}
	case "tool":
		if id, ok := in.Get("tool_call_id"); ok {
			out.Set("tool_call_id", id)
		}
	case "system":
		if tools := field(in, "tools"); tools != nil {
			out.Set("tools", tools)
		}
	}
	return out, nil
}

// contentText is the content of a message as one text: its non-empty parts, joined by line breaks.
func contentText(content any) (string, error) {
	switch c := content.(type) {
	case nil:
		return "", nil
	case string:
		return c, nil
	case *jinja.List:
		var texts []string
		for _, p := range c.Items {
			text, err := partText(p)
			if err != nil {
				return "", err
			}
			if text != "" {
				texts = append(texts, text)
			}
		}
		return strings.Join(texts, "\n"), nil
	}
	return "", errors.New("content is neither a text nor a list of parts")
}

func partText(p any) (string, error) {
	if text, ok := p.(string); ok {
		return text, nil
	}
	dict, ok := p.(*jinja.Dict)
	if !ok {
		return "", errors.New("content: a part is not an object")
	}
	switch kind := field(dict, "type"); kind {
	case "text":
		switch text := field(dict, "text").(type) {
		case nil:
			return "", nil
		case string:
			return text, nil
		}
		return "", errors.New("content: the text of a part is not a text")
	case "image_url", "video_url", "audio_url", "input_audio", "image_embeds":
		return "", fmt.Errorf("content has a part of type %s: %w", kind, ErrMedia)
	default:
		return "", fmt.Errorf("content: a part has the type %v, which is not known", kind)
	}
}

// toolCalls are the calls of an assistant. Arguments in a JSON text are decoded, as templates expect. The fields of a
// call that follows the API are in the order of its definition, as after the server's validation; others keep their
// order.
func toolCalls(v any) (*jinja.List, error) {
	list, ok := v.(*jinja.List)
	if !ok {
		return nil, errors.New("tool_calls is not a list")
	}
	out := &jinja.List{}
	for i, v := range list.Items {
		in, ok := v.(*jinja.Dict)
		if !ok {
			return nil, fmt.Errorf("tool_calls[%d] is not an object", i)
		}
		fn, ok := field(in, "function").(*jinja.Dict)
		if !ok {
			return nil, fmt.Errorf("tool_calls[%d].function is not an object", i)
		}
		given := field(fn, "arguments")
		arguments, err := callArguments(given)
		if err != nil {
			return nil, fmt.Errorf("tool_calls[%d].function.arguments: %w", i, err)
		}
		_, idOK := field(in, "id").(string)
		_, nameOK := field(fn, "name").(string)
		_, argumentsOK := given.(string)
		call := jinja.NewDict()
		if idOK && nameOK && argumentsOK && field(in, "type") == "function" {
			fields := jinja.NewDict()
			fields.Set("arguments", arguments)
			fields.Set("name", field(fn, "name"))
			call.Set("id", field(in, "id"))
			call.Set("function", fields)
			call.Set("type", "function")
		} else {
			call = ordered(in, []string{"id", "type", "function"}, map[string]any{
				"function": ordered(fn, []string{"name", "arguments"}, map[string]any{"arguments": arguments}),
			})
		}
		out.Items = append(out.Items, call)
	}
	return out, nil
}

// callArguments are the arguments of a call: a text that is not JSON stays a text.
func callArguments(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return jinja.NewDict(), nil
	case *jinja.Dict:
		return v, nil
	case string:
		read, err := jinja.Decode([]byte(v))
		if err != nil {
			return v, nil
		}
		if _, ok := read.(*jinja.Dict); !ok {
			return nil, errors.New("is not a JSON object")
		}
		return read, nil
	}
	return nil, errors.New("is not an object")
}

// tools are a request's tools as the server passes them to the template: fields in the order of their definition,
// missing ones null (tensorrt_llm/serve/openai_protocol.py, ChatCompletionToolsParam). The field strict, which only
// newer servers have, is included if the request has it.
func tools(raw []byte) (*jinja.List, error) {
	in, err := objects(raw)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: tools%w", err)
	}
	out := make([]*jinja.Dict, len(in))
	for i, tool := range in {
		fn, ok := field(tool, "function").(*jinja.Dict)
		if kind, has := tool.Get("type"); !ok || has && kind != "function" {
			return nil, fmt.Errorf("tokenizer: tools[%d]: is no function", i)
		}
		if _, ok := field(fn, "name").(string); !ok {
			return nil, fmt.Errorf("tokenizer: tools[%d]: has no name", i)
		}
		full := ordered(fn, []string{"name", "description", "parameters"}, map[string]any{
			"description": field(fn, "description"), "parameters": field(fn, "parameters"),
		})
		out[i] = ordered(tool, []string{"type", "function"}, map[string]any{"type": "function", "function": full})
	}
	return listOf(out), nil
}

// ordered is d with the named keys first, in that order; values in instead replace those of d, or are added.
func ordered(d *jinja.Dict, first []string, instead map[string]any) *jinja.Dict {
	out := jinja.NewDict()
	for _, key := range first {
		if v, ok := instead[key]; ok {
			out.Set(key, v)
		} else if v, ok := d.Get(key); ok {
			out.Set(key, v)
		}
	}
	for i := range d.Len() {
		key, v := d.At(i)
		if _, done := out.Get(key); !done {
			out.Set(key, v)
		}
	}
	return out
}
