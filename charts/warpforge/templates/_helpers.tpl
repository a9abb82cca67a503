{{- define "warpforge.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 30 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 32 characters: a CronJob's name has 52, of which a schedule's takes up to 19. */}}
{{- define "warpforge.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 32 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "warpforge.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 32 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 32 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What tells the operator's pods from others; it may never change. */}}
{{- define "warpforge.selector" -}}
app.kubernetes.io/name: {{ include "warpforge.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* Labels of every object; the component is the caller's second argument. */}}
{{- define "warpforge.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "warpforge.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: warpforge
app.kubernetes.io/component: {{ index . 1 }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* An image: repository, and digest or tag. */}}
{{- define "warpforge.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default $root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "warpforge.account" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else -}}
{{- include "warpforge.fullname" . -}}
{{- end -}}
{{- end -}}

{{- define "warpforge.submitter" -}}
{{- if .Values.submitter.serviceAccount.name -}}
{{- .Values.submitter.serviceAccount.name -}}
{{- else -}}
{{- printf "%s-submitter" (include "warpforge.fullname" .) -}}
{{- end -}}
{{- end -}}

{{/* The user of our images; the group is stated, as an image without a passwd entry gives group 0. */}}
{{- define "warpforge.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "warpforge.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* A submitter's container but for its arguments. */}}
{{- define "warpforge.submitterContainer" -}}
name: submit
image: {{ include "warpforge.image" (list . .Values.operator.image) }}
imagePullPolicy: {{ .Values.operator.image.pullPolicy }}
securityContext:
  {{- include "warpforge.containerSecurity" . | nindent 2 }}
resources:
  {{- toYaml .Values.submitter.resources | nindent 2 }}
{{- end -}}

{{/* Egress to the API server and to DNS, which may run on the host's own network. */}}
{{- define "warpforge.clusterEgress" -}}
- ports:
    - protocol: UDP
      port: 53
    - protocol: TCP
      port: 53
{{ include "warpforge.egress" .Values.networkPolicy.apiServer }}
{{- end -}}

{{/* Egress to some ports, at some addresses or at any. */}}
{{- define "warpforge.egress" -}}
- ports:
    {{- range .ports }}
    - protocol: TCP
      port: {{ . }}
    {{- end }}
  {{- with .cidrs }}
  to:
    {{- range . }}
    - ipBlock:
        cidr: {{ . }}
    {{- end }}
  {{- end }}
{{- end -}}
