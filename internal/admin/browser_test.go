package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

// TestPageInBrowser drives the page in a headless Chromium: WARMPATH_BROWSER=1 go test ./internal/admin -run Browser.
// WARMPATH_AXE names an axe.min.js, which then judges how accessible it is; WARMPATH_SHOTS a folder for pictures.
func TestPageInBrowser(t *testing.T) {
	if os.Getenv("WARMPATH_BROWSER") == "" {
		t.Skip("set WARMPATH_BROWSER=1 to drive the page in Chromium")
	}
	program := ""
	for _, name := range []string{os.Getenv("WARMPATH_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("no Chromium is installed; WARMPATH_CHROMIUM names one elsewhere")
	}
	const many = 256
	f, tally := bigFleet(many), NewTally()
	feed(tally, many)
	s := httptest.NewServer(handler(f, func(c *Config) {
		c.Aliases = map[string][]string{"fast": {"qwen", "new"}, "large": {"qwen-70b", "qwen"}}
		c.Tally, c.Decisions, c.Token = tally, http.HandlerFunc(someDecisions), "t0ken"
		c.Replicas = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"self":"r0","fleet":"f","frames_received":10,"gaps":0,"peers":[{"router":"r1","synced":true,"leases":3,"delay_ms":1.5}]}`)
		})
	}))
	t.Cleanup(s.Close) // after the browser, whose stream it waits for
	c := startChromium(t, program)
	p := c.page("light")
	p.do("Page.navigate", map[string]any{"url": s.URL})

	// The token first, wrong and right.
	p.until("the form is there", `!document.getElementById("login").hidden`)
	enter := func(token string) {
		p.eval(fmt.Sprintf(`document.getElementById("token").value=%q, document.querySelector("#login button").click()`,
			token))
	}
	enter("wrong")
	p.until("a wrong token is refused", `document.getElementById("wrong").textContent.includes("not the token")`)
	enter("t0ken")
	p.until("no figure is made of one that is not there",
		`fleet.size > 0 && !/NaN|undefined|Infinity/.test(document.body.innerText)`)
	p.until("names of a domain are told apart", `(() => {
		const names = [10, 11].map((i) => "vllm-qwen3-235b-a22b-7c9f8d6b5-000" + i + ".models.svc.cluster.local:8000");
		learnDomain(names);
		const short = names.map((n) => brief(n, 24));
		learnDomain(["10.0.0.1:8000", "10.1.0.1:8000"]);
		const kept = brief("10.1.0.1:8000", 12);
		learnDomain(order);
		return short[0].endsWith("8d6b5-00010") && short[1].endsWith("8d6b5-00011") && kept.endsWith(":8000");
	})()`)
	p.until("all rows are there", fmt.Sprintf(`document.querySelectorAll("#rows tr").length === %d`, many))
	p.until("what is wrong is told", `document.querySelector("#troubles").textContent.includes("e-007: Down")`)
	p.until("charts are drawn",
		`document.querySelectorAll("#charts canvas").length === 4 && charts.every((c) => c.plot.data[0].length > 0)`)
	p.until("decisions are told", `document.querySelectorAll("#decisions tr.one").length === 3`)
	p.until("a conversation is followed", `document.querySelectorAll("#turns tr").length === 3 && document.querySelectorAll("#lanes circle").length === 6`)
	p.eval(`(() => {
		const real = window.fetch;
		window.fetch = () => Promise.reject(new Error("gone"));
		follow("c1").finally(() => { window.fetch = real; });
	})()`)
	p.until("a router that does not answer leaves what the page has",
		`document.querySelectorAll("#turns tr").length === 3 && $("said").textContent.includes("gone")`)
	p.until("an alias's models are beside each other", `document.querySelectorAll("#alias-rows tr").length === 4 && document.querySelector("#alias-rows").textContent.includes("95 % of new conversations")`)
	p.until("replicas are told", `document.querySelector("#peers").textContent.includes("r1")`)
	p.shot("page-light")

	// A decision opens and closes from the keyboard, and its terms are there.
	p.eval(`document.querySelector("#decisions button").focus()`)
	p.press("Enter", "\r")
	p.until("a decision is open", `document.querySelector("#decisions .story .terms .chosen") && document.activeElement.getAttribute("aria-expanded") === "true"`)
	p.press("Enter", "\r")
	p.until("it is closed", `!document.querySelector("#decisions .story")`)

	// Drain and undrain from the keyboard, with a question before.
	p.eval(`document.querySelector("#rows tr:nth-child(3) button").focus()`)
	p.press("Enter", "\r")
	p.until("it asks first", `document.getElementById("ask").open`)
	p.press("Escape", "")
	p.until("it takes no for an answer", `!document.getElementById("ask").open`)
	if f.Status()[2].Draining {
		t.Error("e-002 drains although nobody said yes")
	}
	p.press("Enter", "\r")
	p.until("it asks again", `document.getElementById("ask").open`)
	p.press("Tab", "")
	p.press("Enter", "\r")
	p.until("it drains", `document.querySelector("#rows tr:nth-child(3)").textContent.includes("draining")`)
	p.until("focus stays", `document.activeElement === document.querySelector("#rows tr:nth-child(3) button")`)
	p.press("Enter", "\r")
	p.until("it is back", `!document.querySelector("#rows tr:nth-child(3)").textContent.includes("draining")`)

	p.eval(`[...document.querySelectorAll(".sort")].find((b) => b.textContent.startsWith("Failed")).click()`)
	p.until("it sorts", `document.querySelector("#rows tr").textContent.includes("e-007")`)
	p.eval(`document.getElementById("filter").value = "e-01", document.getElementById("filter").dispatchEvent(new Event("input"))`)
	p.until("it filters", `document.querySelectorAll("#rows tr").length === 10`)
	p.eval(`document.getElementById("filter").value = "", document.getElementById("filter").dispatchEvent(new Event("input"))`)
	t.Logf("one update of %d rows takes %s ms, all of them changed; the page has %d bytes", many,
		p.eval(`(() => { const t = performance.now(); for (let i = 0; i < 20; i++) { for (const e of fleet.values()) { e.load.requests++; e.load.prefill_tokens += 50 * i; } showFleet(); document.body.offsetHeight; } return ((performance.now() - t) / 20).toFixed(1); })()`), len(newPage().body))

	p.until("figures go on where the router's clock was set back", `(() => { const n = "clock"; note(n, {requests: 1}, seenAt); note(n, {requests: 5}, seenAt - 3600000); note(n, {requests: 9}, seenAt - 3590000); return grew(n, {requests: 9}, "requests") === 4; })()`)
	p.until("charts do", `(() => { const last = past.at(-1), at = last.at - 1000; showHistory({points: [{...last, at}]}); return past.at(-1).at === at && past.every((p, i) => !i || past[i - 1].at < p.at); })()`)

	if axe := os.Getenv("WARMPATH_AXE"); axe != "" {
		p.judge(t, axe, "light")
		p.do("Emulation.setEmulatedMedia", map[string]any{
			"features": []any{map[string]string{"name": "prefers-color-scheme", "value": "dark"}},
		})
		p.judge(t, axe, "dark")
		p.shot("page-dark")
		p.eval(`document.querySelector("#decisions button").click()`)
		p.do("Emulation.setDeviceMetricsOverride", map[string]any{
			"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": true,
		})
		p.until("the page is as wide as a phone", `innerWidth === 390 && document.documentElement.scrollWidth === 390`)
		p.judge(t, axe, "phone")
		p.shot("page-phone")
	}
	if len(c.complaints()) > 0 {
		t.Errorf("the browser complains: %s", strings.Join(c.complaints(), "\n"))
	}
	s.CloseClientConnections()
	p.until("a router that is gone is the first trouble",
		`document.querySelector("#troubles").textContent.includes("gives no answer")`)
	p.until("it is forgotten once the router is back",
		`document.querySelector("#troubles").textContent.includes("e-007: Down")`)
}

func bigFleet(n int) *fakeFleet {
	f := &fakeFleet{}
	for i := range n {
		name := fmt.Sprintf("e-%03d", i)
		s := route.EndpointStatus{
			Endpoint: fleet.Endpoint{Name: name, URL: "http://10.0.0.1:8000", Weight: 1}, Kind: fleet.KindVLLM,
			Source: "static", State: fleet.StateUp, Ramp: 1, Models: []fleet.Model{{ID: "qwen"}},
			Load: fleet.Load{
				Requests: i % 7, PrefillTokens: int64(100 * (i % 9)), DecodeTokens: int64(30 * (i % 5)),
			},
			CacheTokens: 120_000, CacheFilled: float64(i%100) / 100, PrefillPerSec: 9000,
			WorkingSet: 1000 * int64(i%9), WorkingRoom: 100_000,
		}
		if i == 7 {
			s.State, s.Detail, s.Failures = fleet.StateDown, "connection refused", 9
		}
		f.status = append(f.status, s)
	}
	f.more = []fleet.ModelStatus{
		{ID: "large", Alias: []string{"qwen-70b", "qwen"}, Overflow: []time.Duration{10 * time.Second, 0}},
	}
	return f
}

// feed tells a tally of two minutes of traffic.
func feed(tally *Tally, endpoints int) {
	rng, hear, now := rand.New(rand.NewPCG(1, 2)), tally.Listener().Served, time.Now()
	turns := uint64(0)
	tally.Compare(func() []Beside {
		turns += 100
		return []Beside{
			{
				Policy: "least_ttft", Turns: turns, TTFTMs: 90 * float64(turns), PromptTokens: 1000 * turns,
				CachedTokens: 900 * turns,
			},
			{
				Policy: "round_robin", Turns: turns, TTFTMs: 400 * float64(turns), PromptTokens: 1000 * turns,
				CachedTokens: 600 * turns,
			},
		}
	})
	for i := range 2400 {
		at := now.Add(-2*time.Minute + time.Duration(i)*50*time.Millisecond)
		d := route.Decision{
			Endpoint: fleet.Endpoint{Name: fmt.Sprintf("e-%03d", rng.IntN(endpoints))}, Pool: "fast", Model: "qwen",
		}
		switch i % 20 {
		case 0:
			d.Model = "new"
		case 1, 2, 3:
			d.Pool, d.Model = "large", "qwen-70b"
		case 4:
			d.Pool, d.Passed = "large", []route.PassedOver{{Model: "qwen-70b", Why: route.PassedFull, WaitMs: 12_000}}
		}
		hear(&live.Served{
			Status: 200, Outcome: fleet.OK, Started: at.Add(-time.Second),
			FirstByte: at.Add(-time.Second + time.Duration(60+rng.IntN(200))*time.Millisecond), Ended: at, Stream: true,
			Usage: fleet.Usage{
				PromptTokens: 3000, CachedTokens: 2000 + rng.IntN(900), CachedKnown: true, OutputTokens: 60,
			},
			Decision: d,
		})
	}
}

func someDecisions(w http.ResponseWriter, r *http.Request) {
	all := []string{}
	if r.URL.Query().Get("after") == "0" || r.URL.Query().Get("conversation") == "c1" {
		for i, at := range []string{"e-001", "e-001", "e-002"} {
			all = append([]string{fmt.Sprintf(`{"number":%d,"request":"r%d","at":"2026-01-02T03:04:0%dZ","ended":"2026-01-02T03:04:0%dZ","endpoint":%q,"reason":"home","why":"The conversation is there.",
"pool":"qwen","model":"qwen","policy":"least_ttft","class":"turn","conversation":"c1","first_turn":%t,"is_first_turn":%t,"stream":true,"outcome":"ok","predicted":{"prompt_tokens":3000,"cached_tokens":2000,"ttft_ms":80},
"observed":{"prompt_tokens":3000,"cached_tokens":2100,"output_tokens":50,"ttft_ms":85,"duration_ms":300},"regret_ms":0,"eligible":2,"candidates":[
{"endpoint":%q,"chosen":true,"cost_ms":80,"ttft_ms":70,"terms_ms":{"wait":10,"prefill":40,"fixed":20,"others":10,"spread":0},"cached_tokens":2000,"requests":1,"weight":1,"busy":0.2},
{"endpoint":"e-009","cost_ms":180,"ttft_ms":150,"terms_ms":{"wait":10,"prefill":120,"fixed":20,"others":30,"spread":0},"cached_tokens":0,"requests":1,"weight":1,"busy":0.2}]}`,
				i+1, i, i, i, at, i == 0, i == 0, at)}, all...)
		}
	}
	_, _ = fmt.Fprintf(w, `{"decisions":[%s],"kept":3,"total":3}`, strings.Join(all, ","))
}

// chromium is a browser that obeys over a pair of pipes, messages ended by a NUL byte.
type chromium struct {
	t  *testing.T
	to io.Writer

	mu      sync.Mutex
	next    int
	answers map[int]chan reply
	said    []string // errors of pages
}

type reply struct{ result, fault json.RawMessage }

func startChromium(t *testing.T, program string) *chromium {
	t.Helper()
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	back, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--no-first-run", "--user-data-dir="+t.TempDir())
	cmd.ExtraFiles = []*os.File{theirs, out}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirs.Close(), out.Close()
	c := &chromium{t: t, to: ours, answers: map[int]chan reply{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.read(back)
	}()
	t.Cleanup(func() {
		_ = ours.Close() // the browser ends with its pipe
		_ = cmd.Wait()
		<-done
		_ = back.Close()
	})
	return c
}

func (c *chromium) read(from io.Reader) {
	var kept []byte
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		kept = append(kept, buffer[:n]...)
		for {
			message, rest, ok := bytes.Cut(kept, []byte{0})
			if !ok {
				break
			}
			c.hear(message)
			kept = rest
		}
		if err != nil {
			return
		}
	}
}

func (c *chromium) hear(message []byte) {
	var m struct {
		ID            int
		Method        string
		Result, Error json.RawMessage
		Params        json.RawMessage
	}
	if json.Unmarshal(message, &m) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	params := string(m.Params)
	switch {
	case m.ID != 0 && c.answers[m.ID] != nil:
		c.answers[m.ID] <- reply{m.Result, m.Error}
	case m.Method == "Runtime.exceptionThrown",
		m.Method == "Log.entryAdded" && strings.Contains(params, `"level":"error"`) &&
			!strings.Contains(params, "status of 401"):
		// that is the token's
		c.said = append(c.said, params)
	}
}

func (c *chromium) complaints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said
}

func (c *chromium) call(session, method string, params map[string]any) json.RawMessage {
	c.t.Helper()
	c.mu.Lock()
	c.next++
	id, got := c.next, make(chan reply, 1)
	c.answers[id] = got
	message, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": session})
	if session == "" {
		message, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	if err == nil {
		_, err = c.to.Write(append(message, 0))
	}
	c.mu.Unlock()
	if err != nil {
		c.t.Fatal(err)
	}
	select {
	case r := <-got:
		if r.fault != nil {
			c.t.Fatalf("%s: %s", method, r.fault)
		}
		return r.result
	case <-time.After(2 * time.Minute):
		c.t.Fatalf("the browser does not answer %s", method)
		return nil
	}
}

// tab is one page of it.
type tab struct {
	*chromium
	session string
}

func (c *chromium) page(scheme string) *tab {
	c.t.Helper()
	var v struct{ TargetID, SessionID string }
	decode := func(b json.RawMessage) {
		if err := json.Unmarshal(b, &v); err != nil {
			c.t.Fatal(err)
		}
	}
	decode(c.call("", "Target.createTarget", map[string]any{"url": "about:blank"}))
	decode(c.call("", "Target.attachToTarget", map[string]any{"targetId": v.TargetID, "flatten": true}))
	p := &tab{c, v.SessionID}
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.do(domain+".enable", nil)
	}
	p.do("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": 1480, "height": 1000, "deviceScaleFactor": 1, "mobile": false,
	})
	p.do("Emulation.setEmulatedMedia", map[string]any{
		"features": []any{map[string]string{"name": "prefers-color-scheme", "value": scheme}},
	})
	return p
}

func (p *tab) do(method string, params map[string]any) json.RawMessage {
	p.t.Helper()
	return p.call(p.session, method, params)
}

// eval is the value of an expression, as JSON; null where it throws.
func (p *tab) eval(expression string) json.RawMessage {
	p.t.Helper()
	var v struct {
		Result struct{ Value json.RawMessage }
	}
	if err := json.Unmarshal(p.do("Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true,
	}), &v); err != nil {
		p.t.Fatal(err)
	}
	return v.Result.Value
}

func (p *tab) until(what, condition string) {
	p.t.Helper()
	for range 600 {
		if string(p.eval("!!("+condition+")")) == "true" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.shot("failed")
	p.t.Fatalf("not so: %s (%s); errors: %s", what, condition, p.complaints())
}

func (p *tab) press(key, text string) {
	p.t.Helper()
	code := map[string]int{"Enter": 13, "Escape": 27, "Tab": 9}[key]
	p.do("Input.dispatchKeyEvent", map[string]any{
		"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
	})
	p.do("Input.dispatchKeyEvent", map[string]any{
		"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code,
	})
}

// judge runs axe-core over the page.
func (p *tab) judge(t *testing.T, file, name string) {
	t.Helper()
	script, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p.eval(string(script) + "; true")
	var found []string
	answer := p.eval(`axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then((r) => r.violations.map((v) => v.id + " (" + v.nodes.length + "): " + v.help + ": " + v.nodes[0].html.slice(0, 160) + " " + (v.nodes[0].any[0] || {message: ""}).message))`)
	if err := json.Unmarshal(answer, &found); err != nil {
		t.Fatalf("axe says %s: %v", answer, err)
	}
	for _, v := range found {
		t.Errorf("%s: %s", name, v)
	}
	t.Logf("%s: axe found %d faults", name, len(found))
}

func (p *tab) shot(name string) {
	dir := os.Getenv("WARMPATH_SHOTS")
	if dir == "" {
		return
	}
	var v struct{ Data []byte }
	if err := json.Unmarshal(p.do("Page.captureScreenshot", map[string]any{
		"captureBeyondViewport": true,
	}), &v); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/"+name+".png", v.Data, 0o600); err != nil {
		p.t.Fatal(err)
	}
}
