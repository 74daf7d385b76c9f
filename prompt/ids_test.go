package prompt

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestUsersAndParents(t *testing.T) {
	const legacy = "user_5e1f_account_9d2c_session_0f47a5f6-4b7c-4f0e-9a3a-4f3c8f0a2b11"
	rows := []struct {
		name, body            string
		header                http.Header
		session, user, parent string
	}{
		{"a user", `{"user":"alice"}`, nil, "", "alice", ""},
		{"the safety identifier first", `{"user":"alice","safety_identifier":"h4sh"}`, nil, "", "h4sh", ""},
		{"a user of Anthropic's", `{"metadata":{"user_id":"alice"}}`, nil, "", "alice", ""},
		{"a header", `{}`, http.Header{"X-User-Id": {"bob"}}, "", "bob", ""},
		{
			"Claude Code before 2.1.78", `{"metadata":{"user_id":"` + legacy + `"}}`, nil,
			"0f47a5f6-4b7c-4f0e-9a3a-4f3c8f0a2b11", "", "",
		},
		{
			"Claude Code since 2.1.78",
			`{"metadata":{"user_id":"{\"device_id\":\"d\",\"account_uuid\":\"\",\"session_id\":\"s\"}"}}`,
			nil, "s", "", "",
		},
		{
			"its sub-agent", `{"metadata":{"user_id":"{\"session_id\":\"s\",\"parent_session_id\":\"p\"}"}}`,
			nil, "s", "", "p",
		},
		{"as an object", `{"metadata":{"user_id":{"session_id":"s"}}}`, nil, "s", "", ""},
		{"no JSON after all", `{"metadata":{"user_id":"{\"session_id\":\"s\""}}`, nil, "", `{"session_id":"s"`, ""},
		{"an empty session part", `{"metadata":{"user_id":"user_session_"}}`, nil, "", "user_session_", ""},
		{"Claude Code's headers", `{"metadata":{"user_id":"` + legacy + `"}}`, http.Header{
			claudeSession: {"s"},
		}, "s", "", ""},
		{"an agent of the main one", `{}`, http.Header{claudeSession: {"s"}, claudeAgent: {"a"}}, "s/a", "", "s"},
		{
			"an agent of an agent", `{}`,
			http.Header{claudeSession: {"s"}, claudeAgent: {"b"}, claudeParent: {"a"}},
			"s/b", "", "s/a",
		},
		{
			"an agent of the session in the body", `{"metadata":{"user_id":"` + legacy + `"}}`,
			http.Header{claudeAgent: {"a"}},
			"0f47a5f6-4b7c-4f0e-9a3a-4f3c8f0a2b11/a", "", "0f47a5f6-4b7c-4f0e-9a3a-4f3c8f0a2b11",
		},
		{"an agent without a session", `{"session_id":"x"}`, http.Header{claudeAgent: {"a"}}, "x", "", ""},
		{"an agent too long", `{}`, http.Header{
			claudeSession: {"s"}, claudeAgent: {strings.Repeat("a", MaxIDBytes)},
		}, "s", "", ""},
		{
			"OpenCode", `{}`,
			http.Header{"X-Session-Affinity": {"ses_2"}, "X-Session-Id": {"ses_2"}, "X-Parent-Session-Id": {"ses_1"}},
			"ses_2", "", "ses_1",
		},
		{"an agent made for OpenCode's relay", `{}`, http.Header{"X-Opencode-Session": {"s"}}, "s", "", ""},
		{
			"Codex: the thread, not the run", `{"prompt_cache_key":"t"}`,
			http.Header{"Session-Id": {"run"}, "Thread-Id": {"t"}, "X-Codex-Parent-Thread-Id": {"p"}},
			"t", "", "p",
		},
		{
			"Codex: only its metadata", `{}`,
			http.Header{"X-Codex-Turn-Metadata": {`{"session_id":"run","thread_id":"t","parent_thread_id":"p","n":1}`}},
			"t", "", "p",
		},
		{"older: no thread in it", `{}`, http.Header{
			"X-Codex-Turn-Metadata": {`{"turn_id":"1","session_id":"run"}`},
		}, "", "", ""},
		{
			"in the body",
			`{"client_metadata":{"x-codex-turn-metadata":"{\"thread_id\":\"t\"}","x-codex-parent-thread-id":"p"}}`,
			http.Header{"Session-Id": {"run"}},
			"t", "", "p",
		},
		{"as an object", `{"client_metadata":{"x-codex-turn-metadata":{"thread_id":"t"}}}`, nil, "t", "", ""},
		{"metadata that is no JSON", `{}`, http.Header{"X-Codex-Turn-Metadata": {`{"thread_id":"t"`}}, "", "", ""},
		{"metadata out of all bounds", `{}`, http.Header{
			"X-Codex-Turn-Metadata": {`{"thread_id":"t","x":"` + strings.Repeat("x", maxObjectBytes) + `"}`},
		}, "", "", ""},
		{
			"Dynamo, earlier",
			`{"nvext":{"agent_hints":{"osl":5},"session_control":{"session_id":"s","action":"bind"}}}`,
			nil, "s", "", "",
		},
		{
			"Dynamo without a session", `{"nvext":{"session_control":{"session_id":5},"extra_fields":["session_id"]}}`,
			nil, "", "", "",
		},
		{"Dynamo", `{}`, http.Header{"X-Dynamo-Session-Id": {"s"}, "X-Dynamo-Parent-Session-Id": {"p"}}, "s", "", "p"},
		{"its own parent", `{}`, http.Header{
			"X-Dynamo-Session-Id": {"s"}, "X-Dynamo-Parent-Session-Id": {"s"},
		}, "s", "", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, err := newParser(t).Parse(Messages, []byte(row.body), row.header.Get)
			if err != nil || got.Session != row.session || got.User != row.user || got.Parent != row.parent {
				t.Errorf("got session %q, user %q, parent %q, %v; want %q, %q, %q",
					got.Session, got.User, got.Parent, err, row.session, row.user, row.parent)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	p, err := Identity{
		IDs: []string{"field:chat.id", "header: X-Chat"}, Users: []string{}, Parents: []string{"field:chat.parent"},
	}.Parser()
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{"X-Chat": {"h"}, "X-Session-Id": {"s"}}
	got, err := p.Parse(Chat, []byte(`{"user":"u","chat":{"parent":"p"}}`), h.Get)
	if err != nil || got.Session != "h" || got.User != "" || got.Parent != "p" {
		t.Errorf("got %+v, %v", got, err)
	}
	bad := Identity{
		IDs: []string{"X-Chat"}, Users: []string{"header:a b", "header:a#"}, Parents: []string{"field:messages.id"},
	}
	err = bad.Validate()
	for _, want := range []string{
		`ids has "X-Chat", which is neither header:NAME nor field:NAME`,
		`users has "header:a b", which is not a header name`, `users has "header:a#", which names no member`,
		`parents has "field:messages.id", which is within`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, src := range slices.Concat(DefaultSources(), DefaultUsers(), DefaultParents()) {
		if back, err := ParseSource(src.String()); err != nil || back != src {
			t.Errorf("%s reads as %+v, %v", src, back, err)
		}
	}
}

func FuzzClaudeUser(f *testing.F) {
	f.Add("user_a_account_b_session_c")
	f.Add(`{"device_id":"d","session_id":"s","parent_session_id":"p"}`)
	f.Add(`{"session_id":{"a":["session_id"]},"session_id":null`)
	f.Fuzz(func(t *testing.T, user string) {
		session, parent := claudeUser(user)
		if parent != "" && (session == parent || !isID(parent)) {
			t.Errorf("%q: session %q, parent %q", user, session, parent)
		}
	})
}
