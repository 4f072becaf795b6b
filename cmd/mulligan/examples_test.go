package main_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"mulligan/policy/config"
)

// document is what the tests need of a document of an example.
type document struct {
	Kind string            // Kubernetes
	Data map[string]string // of a ConfigMap

	Configs map[string]struct{ Content string } // Compose
	Services,
	Spec map[string]any
}

// documents reads an example.
func documents(t *testing.T, name string) []document {
	t.Helper()
	file, err := os.Open("../../docs/examples/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoder := yaml.NewDecoder(file)
	var all []document
	for {
		var d document
		if err := decoder.Decode(&d); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
}

// accepted parses a configuration in which no environment is set.
func accepted(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("mulligan.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("the example's configuration is refused: %v\n%s", err, text)
	}
	return c
}

// TestKubernetesExample: mulligan would start with the ConfigMap's file, reach
// the ports that probes and the app use, and let the right ones in.
func TestKubernetesExample(t *testing.T) {
	docs := documents(t, "kubernetes.yaml")
	if len(docs) != 2 || docs[0].Kind != "ConfigMap" || docs[1].Kind != "Deployment" {
		t.Fatalf("want a ConfigMap and a Deployment, got %d documents", len(docs))
	}
	c := accepted(t, docs[0].Data["mulligan.yaml"])
	if c.Proxy != "127.0.0.1:7080" || c.Admin != "0.0.0.0:7081" {
		t.Errorf("proxy %s, admin %s", c.Proxy, c.Admin)
	}
	if c.Auth != nil {
		t.Error("credentials would be asked of the app")
	}
	if len(c.AllowClients) == 0 {
		t.Error("an admin port beyond loopback needs allow_clients")
	}
	// Metrics and health are all that the example wants from that port.
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "only metrics and health") {
		t.Error(c.Warnings)
	}
	spec, err := yaml.Marshal(docs[1].Spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"restartPolicy: Always", "containerPort: 7081", "path: /readyz", "path: /healthz",
		"value: http://" + c.Proxy,
	} {
		if !strings.Contains(string(spec), part) {
			t.Errorf("the Deployment has no %q", part)
		}
	}
}

// TestComposeExample: mulligan would start with the file, for a host that is
// one of the services, where the app looks for its proxy.
func TestComposeExample(t *testing.T) {
	docs := documents(t, "compose.yaml")
	if len(docs) != 1 {
		t.Fatalf("%d documents, want 1", len(docs))
	}
	c := accepted(t, docs[0].Configs["mulligan"].Content)
	if len(c.Warnings) > 0 {
		t.Error(c.Warnings)
	}
	for _, upstream := range c.Upstreams {
		if docs[0].Services[upstream.Hosts[0].Name] == nil {
			t.Errorf("there is no service %s", upstream.Hosts[0].Name)
		}
	}
	services, err := yaml.Marshal(docs[0].Services)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(services), "HTTP_PROXY: http://"+c.Proxy+"\n") {
		t.Errorf("the app's proxy is not at %s", c.Proxy)
	}
}
