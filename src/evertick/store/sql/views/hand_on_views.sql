-- hand_on_views: the views of an owner become those of another one. Reads all views: there are few, and it is rare.
update saved_views
   set owner = :to
 where owner = :owner
