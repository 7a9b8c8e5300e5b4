package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"crawlkeeper/worker/process"
)

// processFindings are about what this machine offers for ending crawlers whole.
func processFindings(context.Context) []finding {
	ways, err := process.Probe()
	if err != nil {
		return []finding{bad(fmt.Sprintf("crawlers cannot be started here: %v", err), "use Linux 5.10 or later")}
	}
	if err := writable(os.TempDir()); err != nil {
		return []finding{bad(fmt.Sprintf("crawlers cannot be started here: %v", err), "let this user write there, or set TMPDIR to another directory")}
	}
	findings := []finding{procFinding("/proc/1/stat")}
	if ways.Why != "" {
		findings = append(findings, warn(ways.Why, "raise the limit (ulimit -x unlimited, LimitLOCKS=infinity), or take it as it is: trees are still ended, by weaker means"))
	} else {
		findings = append(findings, fine("crawlers are started by pidfd, their orphans come to the manager, and trees are found by %s", ways))
	}
	if os.Getpid() == 1 {
		findings = append(findings, fine("this is PID 1: orphans of any origin come here and are reaped"))
	}
	return findings
}

// procFinding tells whether other users' processes can be seen.
func procFinding(file string) finding {
	if _, err := os.ReadFile(file); err != nil {
		return warn(fmt.Sprintf("/proc does not show all processes: %v", err), "mount it without hidepid, or crawlers that change their user cannot be followed")
	}
	return fine("/proc shows all processes")
}

// stopping compares how long the manager may take to end with how long it is given.
func (d *doctor) stopping(context.Context) []finding {
	container := containerHere(d.environ)
	return []finding{graceFinding(d.conf.StopWithin(), container)}
}

// containers and how long each waits after the stop signal before it kills, where nothing else was set.
const (
	inDocker     = "docker"
	inKubernetes = "Kubernetes"
)

var graces = map[string]time.Duration{inDocker: 10 * time.Second, inKubernetes: 30 * time.Second}

// containerHere is what we run in, "" where it is no container that is known.
func containerHere(environ []string) string {
	for _, variable := range environ {
		if len(variable) > len(kubernetesVariable) && variable[:len(kubernetesVariable)] == kubernetesVariable {
			return inKubernetes
		}
	}
	for _, file := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(file); err == nil {
			return inDocker
		}
	}
	return ""
}

const kubernetesVariable = "KUBERNETES_SERVICE_HOST="

func graceFinding(within time.Duration, container string) finding {
	grace, known := graces[container]
	if known && within >= grace {
		return warn(fmt.Sprintf("a stop may take %v (drain_timeout and the longest stop_timeout), and %s kills after %v where nothing else is set", within, container, grace),
			fmt.Sprintf("set stop_grace_period: %v (compose), --stop-timeout (docker run) or terminationGracePeriodSeconds (Kubernetes)", (within+4*time.Second).Round(time.Second)))
	}
	return fine("a stop takes %v at most; what stops the manager must wait that long (docker by itself waits 10s)", within)
}
