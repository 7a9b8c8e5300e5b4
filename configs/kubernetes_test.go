package configs

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// kubeObject is what the tests look at in an object of kubernetes.yaml.
type kubeObject struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
	StringData map[string]string `yaml:"stringData"`
	Data       map[string]string `yaml:"data"`
	Spec       kubeSpec          `yaml:"spec"`
}

type kubeSpec struct {
	Replicas int       `yaml:"replicas"`
	Selector yaml.Node `yaml:"selector"`
	Ports    []struct {
		Port       int    `yaml:"port"`
		TargetPort string `yaml:"targetPort"`
	} `yaml:"ports"`
	Strategy struct {
		Type          string `yaml:"type"`
		RollingUpdate struct {
			MaxUnavailable int `yaml:"maxUnavailable"`
		} `yaml:"rollingUpdate"`
	} `yaml:"strategy"`
	Template struct {
		Metadata struct {
			Labels      map[string]string `yaml:"labels"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"metadata"`
		Spec kubePod `yaml:"spec"`
	} `yaml:"template"`
}

type kubePod struct {
	Grace          int             `yaml:"terminationGracePeriodSeconds"`
	ServiceLinks   *bool           `yaml:"enableServiceLinks"`
	InitContainers []kubeContainer `yaml:"initContainers"`
	Containers     []kubeContainer `yaml:"containers"`
	Security       struct {
		NonRoot bool `yaml:"runAsNonRoot"`
		User    int  `yaml:"runAsUser"`
	} `yaml:"securityContext"`
	Volumes []struct {
		Name      string `yaml:"name"`
		ConfigMap struct {
			Name string `yaml:"name"`
		} `yaml:"configMap"`
		Secret struct {
			Name string `yaml:"secretName"`
		} `yaml:"secret"`
	} `yaml:"volumes"`
}

type kubeContainer struct {
	Name  string   `yaml:"name"`
	Image string   `yaml:"image"`
	Args  []string `yaml:"args"`
	Ports []struct {
		Name string `yaml:"name"`
		Port int    `yaml:"containerPort"`
	} `yaml:"ports"`
	Startup   kubeProbe `yaml:"startupProbe"`
	Liveness  kubeProbe `yaml:"livenessProbe"`
	Readiness kubeProbe `yaml:"readinessProbe"`
	Mounts    []struct {
		Name string `yaml:"name"`
		Path string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type kubeProbe struct {
	HTTPGet struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
	Failures int `yaml:"failureThreshold"`
	Period   int `yaml:"periodSeconds"`
}

func loadKubernetes(t *testing.T) map[string]kubeObject {
	t.Helper()
	var objects []kubeObject
	if err := yaml.Load([]byte(readText(t, "kubernetes.yaml")), &objects, yaml.WithAllDocuments()); err != nil {
		t.Fatalf("kubernetes.yaml: %v", err)
	}
	byKind := map[string]kubeObject{}
	for _, o := range objects {
		byKind[o.Kind] = o
	}
	return byKind
}

// kubeConfig returns the configuration in the ConfigMap, with the URLs of the Secret.
func kubeConfig(t *testing.T, objects map[string]kubeObject) *Config {
	t.Helper()
	secrets := objects["Secret"].StringData
	return mustParse(t, objects["ConfigMap"].Data["crawlkeeper.yaml"],
		"CRAWLKEEPER_REDIS_URL="+secrets["redis-url"], "CRAWLKEEPER_POSTGRES_URL="+secrets["postgres-url"])
}

func TestKubernetesStopsInTime(t *testing.T) {
	t.Parallel()
	objects := loadKubernetes(t)
	pod := objects["Deployment"].Spec.Template.Spec
	if grace, need := time.Duration(pod.Grace)*time.Second, kubeConfig(t, objects).StopWithin(); grace <= need {
		t.Errorf("terminationGracePeriodSeconds %s is not longer than the %s that a stop may take", grace, need)
	}
}

// A rollout must not wait until a new manager is ready before it stops the old one: the new one is a standby until then.
func TestKubernetesRolloutEnds(t *testing.T) {
	t.Parallel()
	spec := loadKubernetes(t)["Deployment"].Spec
	if s := spec.Strategy; s.Type != "Recreate" && (s.Type != "RollingUpdate" || s.RollingUpdate.MaxUnavailable < spec.Replicas) {
		t.Errorf("strategy %+v with %d replicas", s, spec.Replicas)
	}
}

func TestKubernetesProbes(t *testing.T) {
	t.Parallel()
	objects := loadKubernetes(t)
	spec := objects["Deployment"].Spec
	main := spec.Template.Spec.Containers[0]
	for _, probe := range []struct {
		name, path string
		probe      kubeProbe
	}{{"startup", "/healthz", main.Startup}, {"liveness", "/healthz", main.Liveness}, {"readiness", "/readyz", main.Readiness}} {
		if probe.probe.HTTPGet.Path != probe.path || probe.probe.HTTPGet.Port != main.Ports[0].Name || probe.probe.Period < 1 {
			t.Errorf("%s probe: %+v", probe.name, probe.probe)
		}
	}
	listen := kubeConfig(t, objects).HTTP.Listen
	port := strings.TrimPrefix(listen, "0.0.0.0:")
	if port != "9870" || main.Ports[0].Port != 9870 || spec.Template.Metadata.Annotations["prometheus.io/port"] != port {
		t.Errorf("listens on %s, ports %+v", listen, main.Ports)
	}
	service := objects["Service"].Spec.Ports[0]
	if service.TargetPort != main.Ports[0].Name {
		t.Errorf("the service sends to %s", service.TargetPort)
	}
}

func TestKubernetesNamesFit(t *testing.T) {
	t.Parallel()
	objects := loadKubernetes(t)
	spec := objects["Deployment"].Spec
	pod := spec.Template.Spec
	var deployment struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
	var service map[string]string
	for o, into := range map[string]any{"Deployment": &deployment, "Service": &service} {
		selector := objects[o].Spec.Selector
		if err := selector.Load(into); err != nil {
			t.Fatal(err)
		}
	}
	if labels := spec.Template.Metadata.Labels; !maps.Equal(labels, deployment.MatchLabels) || !maps.Equal(labels, service) {
		t.Errorf("labels %v, selectors %v and %v", labels, deployment.MatchLabels, service)
	}
	contents := map[string]map[string]string{} // of the volumes
	for _, v := range pod.Volumes {
		switch {
		case v.ConfigMap.Name == objects["ConfigMap"].Metadata.Name:
			contents[v.Name] = objects["ConfigMap"].Data
		case v.Secret.Name == objects["Secret"].Metadata.Name:
			contents[v.Name] = objects["Secret"].StringData
		default:
			t.Errorf("volume %s is made of nothing that is here", v.Name)
		}
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		var files []string
		for _, m := range c.Mounts {
			for name := range contents[m.Name] {
				files = append(files, path.Join(m.Path, name))
			}
		}
		if i := slices.Index(c.Args, "--config"); i < 0 || !slices.Contains(files, c.Args[i+1]) {
			t.Errorf("%s: no configuration at %q", c.Name, c.Args)
		}
		for _, section := range []string{"redis", "postgres"} {
			if want := "/run/secrets/crawlkeeper/" + section + "-url"; !slices.Contains(files, want) || !strings.Contains(objects["ConfigMap"].Data["crawlkeeper.yaml"], want) {
				t.Errorf("%s: url_file %s is not mounted", c.Name, want)
			}
		}
	}
	if pod.InitContainers[0].Args[0] != "migrate" || pod.Containers[0].Args[0] != "run" {
		t.Error("the pod does not migrate and run")
	}
}

func TestKubernetesUser(t *testing.T) {
	t.Parallel()
	pod := loadKubernetes(t)["Deployment"].Spec.Template.Spec
	final, _ := finalStage(t)
	uid, _, _ := strings.Cut(final.last("USER").rest, ":")
	if !pod.Security.NonRoot || strconv.Itoa(pod.Security.User) != uid {
		t.Errorf("runs as %+v, the image as %s", pod.Security, uid)
	}
	if pod.ServiceLinks == nil || *pod.ServiceLinks {
		t.Error("services put variables of their own beside ours")
	}
}
