package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/warmpath/warmpath/jinja"
)

// mostTime bounds one rendering.
const mostTime = 5 * time.Second

// chat renders a model's chat templates. It is immutable once made, and safe for concurrent use.
type chat struct {
	plain   *jinja.Template // nil for none
	withUse *jinja.Template // the one named tool_use, for requests with tools; nil if plain serves those too
	special map[string]string
}

// newChat reads the chat templates of a model; nil if there are none.
func newChat(cfg *config) (*chat, error) {
	if cfg.model == "gpt_oss" {
		return nil, errors.New(
			"config.json: gpt-oss reads chats by a format of its own (harmony), not by a template: not supported")
	}
	named, err := cfg.templates()
	if err != nil {
		return nil, fmt.Errorf("chat_template: %w", err)
	}
	c := &chat{special: cfg.special}
	for name, at := range map[string]**jinja.Template{"default": &c.plain, "tool_use": &c.withUse} {
		source, ok := named[name]
		if !ok {
			continue
		}
		if *at, err = jinja.Parse(source); err != nil {
			return nil, fmt.Errorf("chat_template %s: %w", name, err)
		}
	}
	if c.plain == nil && c.withUse == nil {
		return nil, nil
	}
	return c, nil
}

// templates are the templates by name: chat_template.jinja takes precedence over tokenizer_config.json, as in
// transformers.
func (c *config) templates() (map[string]string, error) {
	out := map[string]string{}
	if c.template != "" {
		out["default"] = c.template
		return out, nil
	}
	if !given(c.ChatTemplate) {
		return out, nil
	}
	var one string
	if json.Unmarshal(c.ChatTemplate, &one) == nil {
		out["default"] = one
		return out, nil
	}
	var named []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if json.Unmarshal(c.ChatTemplate, &named) != nil {
		return nil, errors.New("is neither a text nor a list of named templates")
	}
	for _, n := range named {
		out[n.Name] = n.Template
	}
	return out, nil
}

// chatTokens are the tokens of a chat.
func (t *Tokenizer) chatTokens(r *request) ([]int32, error) {
	if t.chat == nil {
		return nil, ErrTemplate
	}
	text, err := t.chat.text(r)
	if err != nil {
		return nil, err
	}
	return t.Encode(text, r.AddSpecialTokens != nil && *r.AddSpecialTokens), nil
}

// text is a chat rendered for the model.
func (c *chat) text(r *request) (string, error) {
	if r.ChatTemplate != nil {
		return "", errors.New("tokenizer: the request brings a chat template of its own: not supported")
	}
	msgs, err := messages(r.Messages)
	if err != nil {
		return "", err
	}
	vars := map[string]any{
		"tools": nil, "documents": nil, "add_generation_prompt": r.AddGenerationPrompt == nil || *r.AddGenerationPrompt,
	}
	for name, tok := range c.special {
		vars[name] = tok
	}
	tpl := c.plain
	if given(r.Tools) {
		if vars["tools"], err = tools(r.Tools); err != nil {
			return "", err
		}
		if c.withUse != nil {
			tpl = c.withUse
		}
	}
	if tpl == nil {
		return "", ErrTemplate
	}
	if given(r.Documents) {
		documents, err := objects(r.Documents)
		if err != nil {
			return "", fmt.Errorf("tokenizer: documents%w", err)
		}
		vars["documents"] = listOf(documents)
	}
	continued, err := r.loose(vars)
	if err != nil {
		return "", err
	}
	last := ""
	if continued {
		if last, err = markLast(msgs, vars); err != nil {
			return "", err
		}
	}
	vars["messages"] = listOf(msgs)
	now := time.Now()
	most := jinja.DefaultBudget()
	most.Expired = func() bool { return time.Since(now) > mostTime }
	text, err := tpl.Render(vars, now, most)
	if err != nil {
		return "", fmt.Errorf("tokenizer: chat_template: %w", err)
	}
	if continued {
		return cutLast(text, last)
	}
	return text, nil
}

// loose adds chat_template_kwargs to the variables, and reports whether the answer continues the last message.
func (r *request) loose(vars map[string]any) (continued bool, err error) {
	if !given(r.Kwargs) {
		return r.ContinueFinal, nil
	}
	v, err := jinja.Decode(r.Kwargs)
	if err != nil {
		return false, fmt.Errorf("tokenizer: chat_template_kwargs: %w", err)
	}
	kwargs, ok := v.(*jinja.Dict)
	if !ok {
		return false, errors.New("tokenizer: chat_template_kwargs: is not an object")
	}
	continued = r.ContinueFinal
	for i := range kwargs.Len() {
		switch key, v := kwargs.At(i); key {
		case "continue_final_message":
			continued = v == true
		case "chat_template", "tokenize", "return_dict":
			return false, fmt.Errorf("tokenizer: chat_template_kwargs: %v is not supported", key)
		default:
			vars[key.(string)] = v // Decode makes only string keys
		}
	}
	return continued, nil
}

// continueTag marks the end of the last message during rendering if the answer continues it (transformers,
// render_jinja_template).
const continueTag = "CONTINUE_FINAL_MESSAGE_TAG "

// markLast appends the tag to the last message, and returns the message's text.
func markLast(msgs []*jinja.Dict, vars map[string]any) (string, error) {
	if len(msgs) == 0 || vars["add_generation_prompt"] == true {
		return "", errors.New("tokenizer: continue_final_message needs a last message and no generation prompt")
	}
	last := msgs[len(msgs)-1]
	content, _ := field(last, "content").(string)
	last.Set("content", content+continueTag)
	return content, nil
}

// cutLast cuts a text at the end of the last message.
func cutLast(text, last string) (string, error) {
	tag := strings.TrimSpace(continueTag)
	at := strings.LastIndex(text, tag)
	if at < 0 || !strings.Contains(text, strings.TrimSpace(last)) {
		return "", errors.New("tokenizer: continue_final_message: the chat template changes the last message")
	}
	if strings.HasPrefix(text[at:], continueTag) {
		return text[:at], nil
	}
	return strings.TrimRightFunc(text[:at], unicode.IsSpace), nil
}
