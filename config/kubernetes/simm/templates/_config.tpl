{{/* The daemons' configuration, as JSON with the keys of simm.schema.json. */}}

{{- define "simm.managers" -}}
{{- $root := . -}}
{{- $service := include "simm.component" (list . "manager") -}}
{{- $found := list -}}
{{- range $i := until (int .Values.manager.replicas) -}}
{{- $found = append $found (printf "%s-%d.%s.%s.svc.%s:%d" $service $i $service
      $root.Release.Namespace $root.Values.cluster.domain (int $root.Values.manager.port)) -}}
{{- end -}}
{{- toJson $found -}}
{{- end }}

{{/* What all daemons say. Everybody may write to the volume itself, which simmd does not take. */}}
{{- define "simm.config.common" -}}
run_directory: /run/simmd/daemon
cluster:
  name: {{ .Values.cluster.name | quote }}
  secret_file: "@cluster.secret"
metrics:
  listen: {{ printf "%s:%d" .Values.cluster.listenAddress (int .Values.metrics.port) | quote }}
{{- end }}

{{/* What node and storage daemons say. Tenants are everywhere: other hosts ask for them, too. */}}
{{- define "simm.config.data" -}}
cluster:
  manager: {{ include "simm.managers" . }}
tenants:
  {{- range .Values.tenants }}
  - name: {{ .name | quote }}
    {{- with .quotaPercent }}
    quota_percent: {{ . }}
    {{- end }}
    {{- with .weight }}
    weight: {{ . }}
    {{- end }}
    {{- with .bandwidthMax }}
    bandwidth_max: {{ . | quote }}
    {{- end }}
    {{- with .gpuLend }}
    gpu_lend: {{ . | quote }}
    {{- end }}
  {{- end }}
rdma:
  mode: {{ ternary .Values.rdma.mode "off" .Values.rdma.enabled | quote }}
{{- end }}

{{- define "simm.config.manager" -}}
{{- with .Values.manager -}}
{{- if and (gt (int .replicas) 1) (not .etcd.endpoints) -}}
{{- fail (printf "manager.replicas = %d: several managers need manager.etcd.endpoints; without etcd write 1"
      (int .replicas)) -}}
{{- end -}}
{{- if and .etcd.files (not .etcd.secretName) -}}
{{- fail "manager.etcd.files: name the Secret that has them, manager.etcd.secretName" -}}
{{- end -}}
{{- if and .etcd.user (not .etcd.secretName) -}}
{{- fail "manager.etcd.user: its password is the key password of a Secret: write manager.etcd.secretName" -}}
{{- end -}}
manager:
  listen: {{ printf "%s:%d" $.Values.cluster.listenAddress (int .port) | quote }}
  rejoin_grace_ms: {{ int64 .rejoinGraceMs }}
  {{- if .etcd.endpoints }}
  etcd: {{ toJson .etcd.endpoints }}
  {{- range $file, $key := dict "ca.crt" "etcd_ca_file" "tls.crt" "etcd_cert_file" "tls.key" "etcd_key_file" }}
  {{- if has $file $.Values.manager.etcd.files }}
  {{ $key }}: /etc/etcd/{{ $file }}
  {{- end }}
  {{- end }}
  {{- with .etcd.user }}
  etcd_user: {{ . | quote }}
  etcd_password_file: /run/simmd/etcd-password
  {{- end }}
  {{- else }}
  state_file: /var/lib/simm/manager.state
  {{- end }}
{{- end }}
{{- end }}

{{- define "simm.config.storage" -}}
{{- with .Values.storage -}}
{{- if and .keepPool .hugePages -}}
{{- fail "storage.hugePages with storage.keepPool: a volume of huge pages was never tried; turn one off" -}}
{{- end -}}
{{- $service := include "simm.component" (list $ "storage") }}
cluster:
  listen: {{ printf "%s:%d" $.Values.cluster.listenAddress (int .port) | quote }}
  advertise: {{ printf "{name}.%s.%s.svc.%s" $service $.Release.Namespace $.Values.cluster.domain | quote }}
node:
  pool_bytes: {{ printf "%dMiB" (int64 .poolMiB) }}
  hugepages: {{ ternary "require" "try" .hugePages | quote }}
  {{- if .keepPool }}
  pool_path: /var/lib/simm-pool/pool
  {{- end }}
store:
  objects_max: {{ include "simm.storage.objects" $ }}
threading:
  mode: dedicated
  data_agents: {{ int .dataAgents }}
drain_ms: {{ int64 .drainMs }}
{{- end }}
{{- end }}

{{/* No memory is adopted: that would take the processes of the node, hostPID. */}}
{{- define "simm.config.node" -}}
{{- with .Values.node -}}
node:
  pool_bytes: 0
  cache_bytes: {{ printf "%dMiB" (int64 .cacheMiB) }}
sockets:
  {{- range $.Values.tenants }}
  - path: /run/simm/{{ .name }}/simm.sock
    tenant: {{ .name | quote }}
    mode: "0666"
  {{- end }}
memory:
  adopt: false
threading:
  mode: dedicated
  data_agents: {{ int .dataAgents }}
drain_ms: {{ int64 .drainMs }}
gpu:
  enabled: {{ $.Values.gpu.enabled }}
  tier_bytes: {{ $.Values.gpu.tierBytes | quote }}
  reserve_bytes: {{ $.Values.gpu.reserveBytes | quote }}
  lend_bytes_max: {{ $.Values.gpu.lendBytesMax | quote }}
{{- end }}
{{- end }}

{{/* Common, data and own keys of a component, as a dict: list ROOT COMPONENT. */}}
{{- define "simm.config.fixed" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $fixed := include "simm.config.common" $root | fromYaml -}}
{{- if ne $component "manager" -}}
{{- $fixed = mustMerge $fixed (include "simm.config.data" $root | fromYaml) -}}
{{- end -}}
{{- mustMerge $fixed (include (printf "simm.config.%s" $component) $root | fromYaml) | toJson -}}
{{- end }}

{{/* With the keys of `extra`, of which none may be the chart's: list ROOT COMPONENT. */}}
{{- define "simm.config" -}}
{{- $component := index . 1 -}}
{{- $fixed := include "simm.config.fixed" . | fromJson -}}
{{- $extra := (index (index . 0).Values $component).extra -}}
{{- range $section, $keys := $extra -}}
{{- if hasKey $fixed $section -}}
{{- $own := index $fixed $section -}}
{{- if not (and (kindIs "map" $own) (kindIs "map" $keys)) -}}
{{- fail (printf "%s.extra.%s: the chart writes this key; leave it out" $component $section) -}}
{{- end -}}
{{- range $key, $ignored := $keys -}}
{{- if hasKey $own $key -}}
{{- fail (printf "%s.extra.%s.%s: the chart writes this key; leave it out" $component $section $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- mustMerge $fixed (deepCopy $extra) | toJson -}}
{{- end }}

{{- define "simm.storage.objects" -}}
{{- with .Values.storage -}}
{{- ternary (mul .poolMiB 16) (int64 .objectsMax) (eq (int64 .objectsMax) 0) -}}
{{- end -}}
{{- end }}

{{/* MiB of a pool's volume: tables take at most 1,280 bytes of it for each object, with a long key. */}}
{{- define "simm.storage.volume" -}}
{{- add .Values.storage.poolMiB (div (include "simm.storage.objects" . | int64) 819) 16 -}}
{{- end }}

{{/* MiB that a storage pod takes: its pool; page tables, 8 bytes for 4 KiB; half a KiB for each
     object; 25 MiB for each agent. */}}
{{- define "simm.storage.cost" -}}
{{- with .Values.storage -}}
{{- add .poolMiB (div (int64 .poolMiB) 512) (div (include "simm.storage.objects" $ | int64) 2048)
      (mul 25 .dataAgents) 64 -}}
{{- end -}}
{{- end }}

{{- define "simm.node.cost" -}}
{{- with .Values.node -}}
{{- add .cacheMiB (div (int64 .cacheMiB) 512) (div (int64 .cacheMiB) 128) (mul 25 .dataAgents) 64 -}}
{{- end -}}
{{- end }}

{{/* The limit of a pod's memory: what it costs and 2 GiB, or what the values say: list ROOT COMPONENT. */}}
{{- define "simm.memory" -}}
{{- $component := index . 1 -}}
{{- $cost := include (printf "simm.%s.cost" $component) (index . 0) | int64 -}}
{{- $given := (index (index . 0).Values $component).memoryMiB | int64 -}}
{{- if and (ne $given 0) (lt $given $cost) -}}
{{- fail (printf "%s.memoryMiB = %d: its pool, cache and tables need %d; write at least that, or 0"
      $component $given $cost) -}}
{{- end -}}
{{- ternary (add $cost 2048) $given (eq $given 0) -}}
{{- end }}
