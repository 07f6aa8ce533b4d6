-- Has a run the other attributes, too? :others is a JSON list of texts such as 'stage="paid"'.
   and not exists (select 1
                     from {each :others} as o
                    where not exists (select 1
                                        from workflow_attributes as a
                                       where a.run_id = id and a.name || '=' || a.value = o.each))
