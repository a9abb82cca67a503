// Command cluster is a Kubernetes for tests in one file: every program of a control plane and of
// a node, chosen by the first argument, from Kubernetes' own modules.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var kubernetes = map[string]func() *cobra.Command{
	"apiserver":          apiserver.NewAPIServerCommand,
	"controller-manager": manager.NewControllerManagerCommand,
	"scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":            func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"proxy":              proxy.NewProxyCommand,
}

var ours = map[string]func([]string) error{
	"device-plugin": devicePlugin,
	"dns":           dns,
	"etcd":          etcd,
	"pause":         pause,
}

func main() {
	if len(os.Args) > 1 {
		name := os.Args[1]
		os.Args = append([]string{name}, os.Args[2:]...)
		if command, known := kubernetes[name]; known {
			os.Exit(cli.Run(command()))
		}
		if run, known := ours[name]; known {
			if err := run(os.Args[1:]); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
				os.Exit(1)
			}
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: cluster apiserver|controller-manager|scheduler|kubelet|proxy|etcd|dns|device-plugin|pause …")
	os.Exit(2)
}
