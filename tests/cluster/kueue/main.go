// Command kueue is Kueue for tests: its scheduler, controllers and webhooks, with its integrations of
// Jobs and pods. Its own program is not used: outside a cluster, it wants certificates at a fixed
// place of the machine. Nor is it a part of the command cluster: both define feature gates of the
// same names.
//
//	kueue --kubeconfig FILE --config FILE
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	configapi "sigs.k8s.io/kueue/apis/config/v1beta1"
	alpha "sigs.k8s.io/kueue/apis/kueue/v1alpha1"
	beta "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	queues "sigs.k8s.io/kueue/pkg/cache/queue"
	quotas "sigs.k8s.io/kueue/pkg/cache/scheduler"
	kueueconfig "sigs.k8s.io/kueue/pkg/config"
	"sigs.k8s.io/kueue/pkg/constants"
	kueuecore "sigs.k8s.io/kueue/pkg/controller/core"
	coreindex "sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	_ "sigs.k8s.io/kueue/pkg/controller/jobs/job"
	_ "sigs.k8s.io/kueue/pkg/controller/jobs/pod"
	"sigs.k8s.io/kueue/pkg/controller/tas"
	tasindex "sigs.k8s.io/kueue/pkg/controller/tas/indexer"
	kueuescheduler "sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/util/kubeversion"
	"sigs.k8s.io/kueue/pkg/webhooks"
)

func main() {
	// The flag --kubeconfig is controller-runtime's own.
	file := flag.String("config", "", "Kueue's Configuration")
	flag.Parse()
	if err := run(*file); err != nil {
		fmt.Fprintf(os.Stderr, "command failed: %v\n", err)
		os.Exit(1)
	}
}

func run(file string) error {
	ctrl.SetLogger(zap.New())
	types, err := kinds()
	if err != nil {
		return err
	}
	options, config, err := kueueconfig.Load(types, file)
	if err != nil {
		return err
	}
	client, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	client.QPS, client.Burst = *config.ClientConnection.QPS, int(*config.ClientConnection.Burst)
	manager, err := ctrl.NewManager(client, options)
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if err := assemble(ctx, manager, client, &config); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func kinds() (*runtime.Scheme, error) {
	types := runtime.NewScheme()
	add := []func(*runtime.Scheme) error{
		scheme.AddToScheme, beta.AddToScheme, alpha.AddToScheme, configapi.AddToScheme,
	}
	for _, one := range add {
		if err := one(types); err != nil {
			return nil, err
		}
	}
	return types, nil
}

func assemble(ctx context.Context, manager ctrl.Manager, client *rest.Config, config *configapi.Configuration) error {
	frameworks := jobframework.WithEnabledFrameworks(config.Integrations.Frameworks)
	indexer := manager.GetFieldIndexer()
	err := errors.Join(
		coreindex.Setup(ctx, indexer), tasindex.SetupIndexes(ctx, indexer),
		jobframework.SetupIndexes(ctx, indexer, frameworks),
	)
	if err != nil {
		return err
	}
	quota := quotas.New(manager.GetClient())
	waiting := queues.NewManager(manager.GetClient(), quota)
	go waiting.CleanUpOnContext(ctx)
	go quota.CleanUpOnContext(ctx)
	if name, err := kueuecore.SetupControllers(manager, waiting, quota, config); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if name, err := tas.SetupControllers(manager, waiting, quota, config); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if name, err := webhooks.Setup(manager); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	namespaces, err := meta.LabelSelectorAsSelector(config.ManagedJobsNamespaceSelector)
	if err != nil {
		return err
	}
	version, err := versions(manager, client)
	if err != nil {
		return err
	}
	pods := core.SchemeGroupVersion.WithKind("Pod").String()
	err = jobframework.SetupControllers(ctx, manager, ctrl.Log, frameworks,
		jobframework.WithManageJobsWithoutQueueName(config.ManageJobsWithoutQueueName),
		jobframework.WithEnabledExternalFrameworks(config.Integrations.ExternalFrameworks),
		jobframework.WithIntegrationOptions(pods, config.Integrations.PodOptions),
		jobframework.WithManagedJobsNamespaceSelector(namespaces),
		jobframework.WithWaitForPodsReady(config.WaitForPodsReady),
		jobframework.WithKubeServerVersion(version),
		jobframework.WithManagerName(constants.KueueName),
		jobframework.WithCache(quota),
		jobframework.WithQueues(waiting),
	)
	if err != nil {
		return err
	}
	events := manager.GetEventRecorderFor(constants.AdmissionName)
	return manager.Add(kueuescheduler.New(waiting, quota, manager.GetClient(), events))
}

func versions(manager ctrl.Manager, client *rest.Config) (*kubeversion.ServerVersionFetcher, error) {
	discoverer, err := discovery.NewDiscoveryClientForConfig(client)
	if err != nil {
		return nil, err
	}
	version := kubeversion.NewServerVersionFetcher(discoverer)
	if err := version.FetchServerVersion(); err != nil {
		return nil, err
	}
	return version, manager.Add(version)
}
