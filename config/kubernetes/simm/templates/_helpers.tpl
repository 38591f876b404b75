{{/* Names, labels and what all pods have in common. */}}

{{- define "simm.name" -}}
{{- $name := ternary .Release.Name (printf "%s-simm" .Release.Name) (contains "simm" .Release.Name) -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{/* Of a component: list ROOT COMPONENT. */}}
{{- define "simm.component" -}}
{{- printf "%s-%s" (include "simm.name" (index . 0)) (index . 1) -}}
{{- end }}

{{- define "simm.selector" -}}
app.kubernetes.io/name: simm
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "simm.labels" -}}
{{- $root := index . 0 -}}
{{ include "simm.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{- define "simm.metadata" -}}
name: {{ include "simm.component" . }}
namespace: {{ (index . 0).Release.Namespace }}
labels:
  {{- include "simm.labels" . | nindent 2 }}
{{- end }}

{{- define "simm.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ printf "%s@%s" .repository .digest }}
{{- else -}}
{{ printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end }}
{{- end }}
{{- end }}

{{/* User and group of the image. RDMA pins memory by IPC_LOCK, which only uid 0 keeps. */}}
{{- define "simm.gid" -}}10001{{- end }}
{{- define "simm.uid" -}}{{ ternary 0 10001 .Values.rdma.enabled }}{{- end }}

{{- define "simm.seccomp" -}}
type: {{ .Values.seccomp.type }}
{{- if eq .Values.seccomp.type "Localhost" }}
localhostProfile: {{ .Values.seccomp.localhostProfile }}
{{- end }}
{{- end }}

{{/* list ROOT UID CAPABILITIES */}}
{{- define "simm.container.security" -}}
{{- $uid := index . 1 -}}
runAsUser: {{ $uid }}
runAsGroup: {{ include "simm.gid" . }}
runAsNonRoot: {{ ne (int $uid) 0 }}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
  {{- with index . 2 }}
  add: {{ toJson . }}
  {{- end }}
{{- end }}

{{/* What the daemons that move bytes may do besides: list ROOT. */}}
{{- define "simm.data.security" -}}
{{- $root := index . 0 -}}
{{- include "simm.container.security" (list $root (include "simm.uid" $root)
      (ternary (list "IPC_LOCK") (list) $root.Values.rdma.enabled)) -}}
{{- end }}

{{/* The first half of each pod's spec: list ROOT VALUES-OF-THE-COMPONENT. */}}
{{- define "simm.pod" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
automountServiceAccountToken: false
enableServiceLinks: false
hostNetwork: false
hostPID: false
hostIPC: false
securityContext:
  fsGroup: {{ include "simm.gid" $root }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    {{- include "simm.seccomp" $root | nindent 4 }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* Pods of a StatefulSet on different nodes, where there are enough: list ROOT COMPONENT. */}}
{{- define "simm.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "simm.selector" . | nindent 8 }}
{{- end }}

{{/* Answered by the control thread; healthy means that no data thread hangs. */}}
{{- define "simm.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 120
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}

{{/* simmctl inside a pod finds admin.sock beside SIMM_SOCKET. */}}
{{- define "simm.environment" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: CREDENTIALS_DIRECTORY
  value: /run/credentials/simm
- name: SIMM_SOCKET
  value: /run/simmd/daemon/simm.sock
{{- end }}

{{- define "simm.mounts" -}}
- {name: config, mountPath: /etc/simm, readOnly: true}
- {name: secret, mountPath: /run/credentials/simm, readOnly: true}
- {name: run, mountPath: /run/simmd}
{{- end }}

{{/* A secret's files belong to root, and the daemon reads them as their group: list ROOT COMPONENT. */}}
{{- define "simm.volumes" -}}
- name: config
  configMap:
    name: {{ include "simm.component" . }}
- name: secret
  secret:
    secretName: {{ (index . 0).Values.cluster.secretName }}
    defaultMode: 0440
    items:
      - {key: cluster.secret, path: cluster.secret}
- name: run
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- end }}

{{/* dict root, cpu, cpuLimit, memoryMiB, more (resources of which request and limit are equal) */}}
{{- define "simm.resources" -}}
requests:
  cpu: {{ .cpu | quote }}
  memory: {{ printf "%dMi" (int64 .memoryMiB) }}
  ephemeral-storage: 64Mi
  {{- with .more }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
limits:
  {{- with .cpuLimit }}
  cpu: {{ . | quote }}
  {{- end }}
  memory: {{ printf "%dMi" (int64 .memoryMiB) }}
  ephemeral-storage: 64Mi
  {{- with .more }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "simm.rdma.resources" -}}
{{- if .Values.rdma.enabled }}
{{ .Values.rdma.resource }}: {{ .Values.rdma.count | quote }}
{{- end }}
{{- end }}
