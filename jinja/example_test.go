package jinja_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/jinja"
)

func Example() {
	template, err := jinja.Parse(`{%- for m in messages %}
<|{{ m.role }}|>{{ m.content | trim }}
{%- endfor %}
{%- if tools %} {{ tools | tojson }}{% endif %}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	messages, err := jinja.Decode([]byte(`[{"role": "user", "content": " What is the weather? "}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	tools, err := jinja.Decode([]byte(`[{"name": "weather", "arguments": {"town": "string"}}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := template.Render(map[string]any{"messages": messages, "tools": tools}, time.Now(),
		jinja.DefaultBudget())
	fmt.Println(text, err)
	// Output:
	// <|user|>What is the weather? [{"name": "weather", "arguments": {"town": "string"}}] <nil>
}

// The budget ends a template that would run for long, and Expired one that runs too long by the clock of the caller.
func ExampleBudget() {
	template, err := jinja.Parse(`{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	most := jinja.DefaultBudget()
	end := time.Now().Add(10 * time.Millisecond)
	most.Expired = func() bool { return time.Now().After(end) }
	_, err = template.Render(nil, time.Now(), most)
	fmt.Println(errors.Is(err, jinja.ErrBudget))
	// Output: true
}
