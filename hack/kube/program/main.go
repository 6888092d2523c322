// SPDX-License-Identifier: Apache-2.0

// The control plane that the tests and the demo run against, as one program: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubelet, chosen by the name it is called by. One
// program links the code they share once, which saves most of the size and of the build time of
// five. kubectl is built apart, from the same modules: it is started thousands of times, and half
// of each start went into making ready what only the servers need.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func component(newCommand func() *cobra.Command) func() int {
	return func() int { return cli.Run(newCommand()) }
}

func newScheduler() *cobra.Command { return scheduler.NewSchedulerCommand() }

// The kubelet wants a plain context: the one that ends with a signal may be made only once.
func newKubelet() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

var tools = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          component(apiserver.NewAPIServerCommand),
	"kube-controller-manager": component(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          component(newScheduler),
	"kubelet":                 component(newKubelet),
}

func main() {
	name := filepath.Base(os.Args[0])
	if tools[name] == nil && len(os.Args) > 1 {
		name, os.Args = os.Args[1], os.Args[1:]
	}
	run := tools[name]
	if run == nil {
		names := make([]string, 0, len(tools))
		for n := range tools {
			names = append(names, n)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "usage: cleave-kube TOOL ARGS...\ntools: %s\n", strings.Join(names, " "))
		os.Exit(2)
	}
	os.Exit(run())
}
