package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"mulligan/policy/config"
)

const example = "../../config.example.yaml"

// TestExample: the example is valid as it is, and what it says are the
// defaults.
func TestExample(t *testing.T) {
	c, err := config.Load(example, lookup(nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings %q", c.Warnings)
	}
	if len(c.Upstreams) == 0 {
		t.Error("no upstreams")
	}
	want := config.Default()
	want.Upstreams = c.Upstreams
	want.AllowClients, want.AdminHosts = c.AllowClients[:0], c.AdminHosts[:0] // empty, not nil
	want.ProxyWritten, want.AdminWritten, want.DataDirWritten = true, true, true
	want.AllowDestinations, want.DenyDestinations = c.AllowDestinations[:0], c.DenyDestinations[:0]
	diff(t, reflect.ValueOf(c).Elem(), reflect.ValueOf(want).Elem())
}

// TestExampleIsWhole: every key stands in the example, those that are off
// included, and has a sentence beside it.
func TestExampleIsWhole(t *testing.T) {
	data, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	on := regexp.MustCompile(`(?m)^( *)#([a-z_]+:)`).ReplaceAllString(string(data), "$1$2")
	certificates := writeCertificates(t)
	env := lookup(map[string]string{"PROXY_PASSWORD": "x", "LISTEN_CERT_FILE": filepath.Join(certificates, "server.pem"),
		"LISTEN_KEY_FILE": filepath.Join(certificates, "server.key")})
	if _, err := config.Parse(example, []byte(on), env); err != nil {
		t.Errorf("with everything on: %v", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(on), &document); err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool)
	collect(document.Content[0], "", there)
	for _, key := range config.Keys() {
		// What is the same in several places need be in one: the long form of a
		// listener, and what upstreams and routes inherit.
		twin := regexp.MustCompile(`^upstreams\.NAME\.(routes\.)?(`+inherited+`)(\.|$)`).ReplaceAllString(key, "defaults.$2$3")
		if !there[key] && !there[twin] && !inListener(there, key) && !inRules(there, key) {
			t.Errorf("%s is not in the example", key)
		}
	}
	lines := strings.Split(string(data), "\n")
	described := make(map[string]bool)
	for i, line := range lines {
		word := regexp.MustCompile(`^ *(?:- )?#?([a-z_]+):`).FindStringSubmatch(line)
		if word == nil {
			continue
		}
		if above := strings.TrimSpace(lines[max(0, i-1)]); strings.HasPrefix(above, "# ") || strings.Contains(line, " # ") {
			described[word[1]] = true
		}
	}
	for _, key := range config.Keys() {
		word := key[strings.LastIndexByte(key, '.')+1:]
		if !described[word] && !sections[word] {
			t.Errorf("%s has no sentence", key)
		}
	}
}

// inherited are the keys that upstreams have from defaults.
const inherited = "timeout|retry|buffer|connections|circuit_breaker|concurrency|rate_limit|hedge|health_check|attempt_header|remaining_header"

var ruleKey = regexp.MustCompile(`^(defaults|upstreams\.NAME(\.routes)?)\.(retry\.(rules|reset_headers)\..*)`)

// inRules reports whether a rule, or a reset header, of any place has the key.
func inRules(there map[string]bool, key string) bool {
	parts := ruleKey.FindStringSubmatch(key)
	return parts != nil && (there["defaults."+parts[3]] || there["upstreams.NAME."+parts[3]])
}

var listenerKey = regexp.MustCompile(`^(listen\.(proxy|admin)|upstreams\.NAME\.listen)\.`)

// inListener reports whether any of the listeners has the key of one.
func inListener(there map[string]bool, key string) bool {
	at := listenerKey.FindString(key)
	return at != "" && slices.ContainsFunc([]string{"listen.proxy.", "listen.admin.", "upstreams.NAME.listen."},
		func(door string) bool { return there[door+strings.TrimPrefix(key, at)] })
}

// sections only hold other keys, which say what they are about.
var sections = map[string]bool{"listen": true, "log": true, "retry": true, "buffer": true, "match": true, "backoff": true}

// collect fills keys with the dotted keys of a map; the maps of a list have
// those of the list, and an upstream's name is NAME.
func collect(n *yaml.Node, path string, keys map[string]bool) {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		key := strings.TrimPrefix(path+"."+n.Content[i].Value, ".")
		if path == "upstreams" {
			key = "upstreams.NAME"
		} else {
			keys[key] = true
		}
		collect(n.Content[i+1], key, keys)
	}
	for i := 0; n.Kind == yaml.SequenceNode && i < len(n.Content); i++ {
		collect(n.Content[i], path, keys)
	}
}
