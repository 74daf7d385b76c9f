package proxy

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/internal/proxy/send"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// openAccounts opens the request on its accounts (tenant, client address, all) before its body is read.
func (c *call) openAccounts() (err error) {
	var client netip.Addr
	if c.p.cfg.Quota.Clients() {
		client = c.From.Addr()
	}
	now := time.Now()
	if c.p.cfg.Quota.Carries() && c.From.Peer == "" {
		if err = quota.ConnectionOf(c.R.Context()).Carry(now, c.Request.Tenant, client); err != nil {
			return err
		}
	}
	if c.ticket, err = c.p.cfg.Quota.Enter(now, c.Request.Tenant, client); err != nil {
		return err
	}
	if err = c.readFinal(); err != nil {
		return err
	}
	return c.readTargets()
}

// bytesPerToken estimates the tokens of a prompt until the engine has counted them.
const bytesPerToken = 4

// charge charges the tokens of a request that has been read, and sets its place in the router's queue.
func (c *call) charge() error {
	q := &c.Request
	prompt := int64(q.PromptTokens + q.PromptBytes/bytesPerToken)
	c.detached = c.Detached()
	if q.Class == fleet.Auxiliary {
		prompt = 0
	}
	if err := c.ticket.Charge(time.Now(), prompt, int64(q.MaxTokens), q.Class == fleet.Turn); err != nil {
		return err
	}
	limits := c.p.cfg.Quota.Of(q.Tenant)
	asked, err := c.priority()
	if err != nil {
		return err
	}
	q.QueueClass = limits.QueueClass
	if c.shortened = c.wait > 0 && (limits.Wait == 0 || c.wait < limits.Wait); !c.shortened {
		c.wait = limits.Wait
	}
	q.QueueClass.Priority = min(asked, limits.QueueClass.Priority)
	c.CapsPriority = limits.QueueClass.Priority < fleet.PriorityHigh
	return nil
}

// leftRate is the tokens a second that an engine is taken to decode for an answer that is not streamed, when its client
// leaves: nothing says how far it came.
const leftRate = 50

// settle closes the accounts of a request that has ended. What the engine did not report is estimated once it has
// computed: the prompt, and of the answer what was passed on, or decoded in the time of one that is not streamed. An
// answer in the background costs what was charged for it: its client may never fetch it.
func (c *call) settle() {
	u := &c.served.Usage
	prompt, answer := int64(u.PromptTokens), int64(u.OutputTokens)
	if c.spent.Load() {
		if prompt == 0 {
			prompt = c.ticket.Prompt()
		}
		if answer == 0 || c.served.Outcome != fleet.OK {
			answer = max(answer, c.passed, c.decoded())
			if c.detached {
				answer = max(answer, c.ticket.Answer())
			}
		}
	}
	c.ticket.End(c.served.Ended, c.reached || c.spent.Load(), prompt, answer)
}

// decoded estimates the tokens of a generation that is not streamed and was given up.
func (c *call) decoded() int64 {
	if c.dispatchedAt.IsZero() || c.served.Outcome == fleet.OK || c.Prompt.Stream || c.Request.Class != fleet.Turn {
		return 0
	}
	ms := float64(c.served.Ended.Sub(c.dispatchedAt))/float64(time.Millisecond) - c.served.Decision.TTFTMs
	tokens := int64(max(0, ms) * leftRate / 1000)
	if most := int64(c.Request.MaxTokens); most > 0 {
		return min(tokens, most)
	}
	return tokens
}

// priority is the priority that the client asks for: X-Warmpath-Priority, else OpenAI's service_tier, else vLLM's
// priority in its header or the body, of which the lowest goes first.
func (c *call) priority() (fleet.Priority, error) {
	if h := c.R.Header["X-Warmpath-Priority"]; len(h) > 0 {
		p, err := fleet.ParsePriority(strings.ToLower(strings.TrimSpace(h[0])))
		if err != nil {
			return p, fault.Header("X-Warmpath-Priority", "must be low, normal or high")
		}
		return p, nil
	}
	if h := c.R.Header[send.VLLMPriority]; len(h) > 0 {
		if n, err := strconv.ParseInt(h[0], 10, 64); err == nil {
			return sooner(n), nil
		}
	}
	if c.API == prompt.Other || c.Body == nil {
		return fleet.PriorityNormal, nil
	}
	text := func(field string) string {
		at := c.Prompt.Field(field)
		if at.Len() <= 0 || at.Len() > 20 {
			return ""
		}
		return string(c.Body.Bytes[at.Start:at.End])
	}
	switch text("service_tier") {
	case `"priority"`:
		return fleet.PriorityHigh, nil
	case `"flex"`:
		return fleet.PriorityLow, nil
	case "":
	default:
		return fleet.PriorityNormal, nil
	}
	number := text("priority")
	if number == "" {
		return fleet.PriorityNormal, nil
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return fleet.PriorityNormal, nil
	}
	return sooner(n), nil
}

// sooner is what a number of vLLM's asks for.
func sooner(n int64) fleet.Priority {
	switch {
	case n < 0:
		return fleet.PriorityHigh
	case n > 0:
		return fleet.PriorityLow
	}
	return fleet.PriorityNormal
}

// readTargets reads what the client says of times: X-Warmpath-Deadline, within which its answer must begin,
// X-Warmpath-Wait, the longest wait in the router's queue, and the objectives X-Warmpath-Ttft-Ms and
// X-Warmpath-Tpot-Ms.
func (c *call) readTargets() error {
	deadline, err := target(c.R.Header, "X-Warmpath-Deadline", time.Second)
	if deadline > 0 {
		c.deadline = c.served.Started.Add(deadline)
	}
	if err == nil {
		c.wait, err = target(c.R.Header, "X-Warmpath-Wait", time.Second)
	}
	if err == nil {
		c.served.WantedTTFT, err = target(c.R.Header, "X-Warmpath-Ttft-Ms", time.Millisecond)
	}
	if err == nil {
		c.served.WantedTPOT, err = target(c.R.Header, "X-Warmpath-Tpot-Ms", time.Millisecond)
	}
	return err
}

// unattainable is the error for a request of low priority that no endpoint is expected to begin to answer within its
// objective; else nil. What matters more is sent in any case: a late answer is better than none.
func (c *call) unattainable(p *route.Plan) error {
	wanted := c.served.WantedTTFT
	if wanted == 0 || c.Request.QueueClass.Priority != fleet.PriorityLow ||
		p.TTFTMs <= float64(wanted)/float64(time.Millisecond) {
		return nil
	}
	return fault.ErrUnattainable
}
